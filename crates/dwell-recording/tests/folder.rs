//! What a folder must be for a recording to be made or opened there.
mod common;
use common::{append, meta, tables};
use dwell_recording::rows::SampleRow;
use dwell_recording::{FORMAT_VERSION, Overwrite, Recording, RecordingError, Writer};
use std::fs;

#[test]
fn a_recording_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), meta()).unwrap();
    append(&mut writer, &tables(1, 0, 10)).unwrap();
    writer.finish().unwrap();
    let error = Writer::create(folder.path(), meta()).err().unwrap();
    assert!(matches!(error, RecordingError::Exists { .. }), "{error}");
    assert_eq!(
        Recording::open(folder.path())
            .unwrap()
            .read::<SampleRow>()
            .unwrap()
            .len(),
        10
    );

    let writer = Writer::create_with(folder.path(), meta(), Overwrite::Replace).unwrap();
    writer.finish().unwrap();
    assert_eq!(
        Recording::open(folder.path())
            .unwrap()
            .read::<SampleRow>()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn other_peoples_files_are_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note.txt");
    fs::write(&note, "mine").unwrap();
    for overwrite in [Overwrite::Refuse, Overwrite::Replace] {
        let error = Writer::create_with(folder.path(), meta(), overwrite)
            .err()
            .unwrap();
        assert!(error.to_string().contains("note.txt"), "{error}");
    }
    assert_eq!(fs::read_to_string(&note).unwrap(), "mine");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(
        Writer::create(&note, meta()).is_err(),
        "a file is no folder"
    );
    assert!(
        Recording::open(&note)
            .unwrap_err()
            .to_string()
            .contains("not a folder")
    );
}

#[test]
fn a_folder_without_meta_is_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("nothing")] {
        let error = Recording::open(&path).unwrap_err();
        assert!(
            matches!(error, RecordingError::NotARecording { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("meta.json"), "{error}");
    }
}

#[test]
fn meta_json_that_cannot_be_used_is_an_error_that_says_why() {
    let folder = tempfile::tempdir().unwrap();
    Writer::create(folder.path(), meta())
        .unwrap()
        .finish()
        .unwrap();
    let path = folder.path().join("meta.json");
    let good = fs::read_to_string(&path).unwrap();
    let newer = good.replace(
        &format!("\"format_version\": {FORMAT_VERSION}"),
        &format!("\"format_version\": {}", FORMAT_VERSION + 1),
    );
    for (json, message) in [
        (newer.as_str(), "newer dwell"),
        ("", "EOF"),
        ("[1, 2", "EOF"),
        ("null", "format_version"),
        ("{\"format_version\": 1}", "missing field"),
        ("{\"format_version\": -1}", "format_version"),
        (&good[..good.len() / 2], "EOF"),
        (&"[".repeat(100_000), "recursion limit"),
        (&good.replace("10000000", "\"ten\""), "invalid type"),
    ] {
        fs::write(&path, json).unwrap();
        let error = Recording::open(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains("meta.json"),
            "{error}"
        );
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(
        Recording::open(folder.path()).is_err(),
        "a folder named meta.json"
    );
}
