//! Defaults of devices.

use jiff::Timestamp;
use trireme_machinery::schema::DefaultFn;

use crate::defaults::{Object, absent, empty, text};

/// Type and defaults.
pub(crate) const DEFAULTS: &[(&str, DefaultFn)] = &[
    ("resource.v1.ExactDeviceRequest", request),
    ("resource.v1.DeviceSubRequest", request),
    ("resource.v1.DeviceTaint", taint),
];

fn request(request: &mut Object) {
    empty(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        empty(request, "count", 1);
    }
}

fn taint(taint: &mut Object) {
    absent(taint, "timeAdded", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
}
