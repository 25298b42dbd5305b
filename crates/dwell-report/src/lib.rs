//! Answers into terminal text, JSON, pictures and other tools' formats
