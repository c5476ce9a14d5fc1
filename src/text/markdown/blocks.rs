//! The blocks of a text, as far as a content may go on with them.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::outline;

/// What ends or begins a part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    /// A list without blank lines between its items; whether it is numbered.
    TightList(bool),
    /// A table.
    Table,
    /// Anything else.
    Other,
}

/// Whether a content goes on with what stands before it without a blank line: items of a tight list,
/// rows of a table.
pub fn goes_on(before: &[u8], content: &[u8]) -> bool {
    let last = blocks(before).pop();
    match last {
        Some(Block::TightList(numbered)) => {
            blocks(content).first().is_some_and(|first| *first == Block::TightList(numbered))
        }
        Some(Block::Table) => {
            let joined = [before.trim_ascii_end(), b"\n", content].concat();
            content.starts_with(b"|") && blocks(&joined).len() == blocks(before).len()
        }
        Some(Block::Other) | None => false,
    }
}

/// The outermost blocks of a text.
fn blocks(text: &[u8]) -> Vec<Block> {
    let parsed = outline::parseable(text);
    let mut found: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    for event in Parser::new_ext(&parsed, outline::options()) {
        match event {
            Event::Start(tag) if is_block(&tag) => {
                if depth == 0 {
                    found.push(match tag {
                        Tag::List(first) => Block::TightList(first.is_some()),
                        Tag::Table(_) => Block::Table,
                        _ => Block::Other,
                    });
                } else if depth == 2
                    && matches!(tag, Tag::Paragraph)
                    && let Some(list @ Block::TightList(_)) = found.last_mut()
                {
                    // The items of a loose list hold paragraphs.
                    *list = Block::Other;
                }
                depth += 1;
            }
            Event::End(tag) if ends_block(tag) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => found.push(Block::Other),
            _ => {}
        }
    }
    found
}

/// Whether a tag is that of a block which can stand by itself.
const fn is_block(tag: &Tag<'_>) -> bool {
    matches!(
        tag,
        Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::List(_)
            | Tag::Item
            | Tag::FootnoteDefinition(_)
            | Tag::Table(_)
    )
}

/// The end of what [`is_block`] begins.
const fn ends_block(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::BlockQuote(_)
            | TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::FootnoteDefinition
            | TagEnd::Table
    )
}
