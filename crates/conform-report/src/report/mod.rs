//! Reports of a run, for people and for programs.

mod html;
mod json;
mod junit;
mod list;
mod markdown;
mod text;
mod words;

pub use html::html;
pub use json::json;
pub use junit::junit;
pub use list::{Listed, list, tables};
pub use markdown::markdown;
pub use text::{Paint, header, line, matrix, summary, text};
