//! An error as a value.

/// An error of a rule, with its SQLSTATE and the texts that the client reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Five characters.
    pub sqlstate: &'static [u8; 5],
    /// One line, without a full stop.
    pub message: String,
    /// Why.
    pub detail: Option<String>,
    /// The statement to write instead.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal without detail and hint.
    pub fn new(sqlstate: &'static [u8; 5], message: impl Into<String>) -> Self {
        Refusal { sqlstate, message: message.into(), detail: None, hint: None }
    }

    /// The same with a detail.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Refusal { detail: Some(detail.into()), ..self }
    }

    /// The same with a hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Refusal { hint: Some(hint.into()), ..self }
    }
}
