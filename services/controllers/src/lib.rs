//! The controller workers, one file or folder a controller.
