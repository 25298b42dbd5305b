//! The parts of the processed format that are large, column by column as it names them.
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
pub(super) struct Profile {
    pub meta: Value,
    pub libs: [(); 0],
    pub shared: Value,
    pub threads: Vec<Thread>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread {
    pub process_type: &'static str,
    pub process_name: String,
    pub process_startup_time: f64,
    pub process_shutdown_time: Option<f64>,
    pub register_time: f64,
    pub unregister_time: Option<f64>,
    pub paused_ranges: [(); 0],
    pub name: String,
    pub is_main_thread: bool,
    pub pid: String,
    pub tid: String,
    pub samples: Samples,
    pub markers: Markers,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Samples {
    pub stack: Vec<u32>,
    pub time: Vec<f64>,
    pub weight: Vec<f64>,
    pub weight_type: &'static str,
    pub length: usize,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Markers {
    pub data: Vec<Wait>,
    pub name: Vec<u32>,
    pub start_time: Vec<f64>,
    pub end_time: Vec<f64>,
    pub phase: Vec<u32>,
    pub category: Vec<u32>,
    pub length: usize,
}

#[derive(Serialize)]
pub(super) struct Wait {
    pub r#type: &'static str,
    pub reason: String,
    pub waker: String,
}
