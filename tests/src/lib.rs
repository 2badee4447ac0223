//! Tests of the whole: real kubectl, real containerd.
