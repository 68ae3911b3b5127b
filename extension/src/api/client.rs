//! What users call: submit, wait, execute.
