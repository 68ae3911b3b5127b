//! Answers to a client's statements: rows as they come, and the reasons that end them.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use chainify_analytics_functions::write_text;
use datafusion::arrow::array::RecordBatch;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::door::binary;
use crate::door::wire::{put_value, Field, Formats, Out};
use crate::engine::{Failure, Running};

/// The reasons that end a statement early.
pub struct Stop {
    /// Changes with a cancel request.
    pub cancelled: watch::Receiver<()>,
    /// True once the client has left.
    pub left: watch::Receiver<bool>,
    /// When the statement's time is over.
    pub deadline: Option<Instant>,
}

impl Stop {
    /// For a statement that begins now. Earlier cancel requests do not count.
    pub fn new(mut cancelled: watch::Receiver<()>, left: watch::Receiver<bool>, timeout: Option<Duration>) -> Stop {
        cancelled.mark_unchanged();
        Stop { cancelled, left, deadline: timeout.map(|timeout| Instant::now() + timeout) }
    }

    /// Comes when the statement has to end. It may be dropped and asked again.
    pub async fn comes(&mut self) -> Failure {
        let deadline = self.deadline;
        let expired = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.left.wait_for(|left| *left) => client_left(),
            _ = self.cancelled.changed() => Failure::new("57014", "canceling statement due to user request"),
            () = expired => Failure::new("57014", "canceling statement due to statement timeout"),
        }
    }
}

/// The end of a statement whose client is gone.
pub fn client_left() -> Failure {
    Failure::new("08006", "the client left")
}

/// An answer.
pub enum Answer {
    /// Of a text without a statement.
    Empty,
    /// No rows; its tag.
    Done(&'static str),
    /// Rows.
    Rows(Rows),
}

enum Source {
    Running { running: Box<Running>, batch: Option<RecordBatch>, at: usize },
    Value(Option<String>),
}

/// The rows of an answer that are not sent yet.
pub struct Rows {
    /// Their columns.
    pub fields: Arc<[Field]>,
    /// How they are sent.
    pub formats: Formats,
    /// The beginning of the tag.
    pub tag: &'static str,
    source: Source,
}

impl Rows {
    /// Of a query. Its columns are those that the database told.
    ///
    /// # Errors
    /// XX000 when the worker has another number of columns.
    pub fn of(running: Running, fields: Arc<[Field]>) -> Result<Rows, Failure> {
        if running.schema.fields().len() != fields.len() {
            return Err(Failure::new("XX000", "the analytics worker has other columns than the database"));
        }
        let source = Source::Running { running: Box::new(running), batch: None, at: 0 };
        Ok(Rows { fields, formats: Formats::default(), tag: "SELECT", source })
    }

    /// One value.
    pub fn value(fields: Arc<[Field]>, value: String) -> Rows {
        Rows { fields, formats: Formats::default(), tag: "SHOW", source: Source::Value(Some(value)) }
    }

    /// Sends columns as a client wants them.
    ///
    /// # Errors
    /// 08P01 for formats of another number of columns, 0A000 for a type without a binary form.
    pub fn in_formats(mut self, formats: Formats) -> Result<Rows, Failure> {
        if !formats.fits(self.fields.len()) {
            return Err(Failure::new(
                "08P01",
                format!("as many formats as the {} columns are needed", self.fields.len()),
            ));
        }
        let binary = self.fields.iter().enumerate().filter(|(at, _)| formats.is_binary(*at));
        if let Some((_, field)) = binary.into_iter().find(|(_, field)| !binary::is_known(field.of)) {
            return Err(binary::not_available(field.of));
        }
        self.formats = formats;
        Ok(self)
    }

    /// Appends the next row. False: there is none. It may be dropped and asked again.
    ///
    /// # Errors
    /// Those of the query, and 54000 for a row that is too long.
    pub async fn next(&mut self, out: &mut Out) -> Result<bool, Failure> {
        let (fields, formats) = (&self.fields, &self.formats);
        let columns = fields.len();
        match &mut self.source {
            Source::Value(value) => match value.take() {
                None => Ok(false),
                Some(value) => {
                    out.row(columns, |body| {
                        put_value(body, Some(&value));
                        Ok(())
                    })?;
                    Ok(true)
                }
            },
            Source::Running { running, batch, at } => loop {
                if let Some(rows) = batch.as_ref().filter(|rows| *at < rows.num_rows()) {
                    out.row(columns, |body| write_row(rows, *at, fields, formats, body))?;
                    *at += 1;
                    return Ok(true);
                }
                match running.next().await {
                    None => return Ok(false),
                    Some(next) => (*batch, *at) = (Some(next?), 0),
                }
            },
        }
    }
}

fn write_row(
    rows: &RecordBatch,
    at: usize,
    fields: &[Field],
    formats: &Formats,
    body: &mut BytesMut,
) -> Result<(), Failure> {
    let mut text = String::new();
    for (number, (column, field)) in rows.columns().iter().zip(fields).enumerate() {
        text.clear();
        let given =
            write_text(column.as_ref(), at, &mut text).map_err(|error| Failure::new(error.sqlstate, error.message))?;
        match given && formats.is_binary(number) {
            true => binary::put(body, field.of, &text)?,
            false => put_value(body, given.then_some(&text)),
        }
    }
    Ok(())
}
