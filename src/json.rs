//! JSON as text, for answers: on one line, or spread over lines for people.
//!
//! Serde compiles a type anew for each kind of writer and of layout. All answers are written with one kind of
//! both, which decides at run time.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// How a JSON text is laid out.
pub enum Layout {
    /// On one line.
    Line,
    /// Over lines, with indents.
    Lines(PrettyFormatter<'static>),
}

impl Layout {
    /// Over lines where that is wanted, else on one.
    #[must_use]
    pub fn pretty(is_wanted: bool) -> Self {
        if is_wanted { Self::Lines(PrettyFormatter::new()) } else { Self::Line }
    }
}

/// Formatter methods that leave the choice to the layout.
macro_rules! by_layout {
    ($($method:ident($($argument:ident: $type:ty)?);)*) => {
        $(fn $method<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $type)?) -> io::Result<()> {
            match self {
                Self::Line => CompactFormatter.$method(writer $(, $argument)?),
                Self::Lines(pretty) => pretty.$method(writer $(, $argument)?),
            }
        })*
    };
}

impl Formatter for Layout {
    by_layout! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }
}

/// Writes a value as JSON.
///
/// # Errors
/// Where the value cannot be JSON, or `out` takes no more.
pub fn write<T: Serialize + ?Sized>(
    value: &T,
    layout: Layout,
    out: &mut dyn Write,
) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, layout))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_layouts_are_those_of_serde_json() {
        let value = json!({ "a": [1, { "b": [] }, {}, "x\n\u{1}\""], "c": { "d": null, "e": 0.5 }, "f": -1 });
        let written = |layout| {
            let mut text = Vec::new();
            write(&value, layout, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(written(Layout::pretty(false)), serde_json::to_string(&value).unwrap());
        assert_eq!(written(Layout::pretty(true)), serde_json::to_string_pretty(&value).unwrap());
    }
}
