//! The kernel and its processes into a recording
