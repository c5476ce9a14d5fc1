//! Texts: encodings, lines, matches, sketches, Markdown, merges.

use std::ops::Range;

use lbx::text::answer_size::AnswerRoom;
use lbx::text::charset::{self, Charset};
use lbx::text::content::{Content, UTF8_BOM};
use lbx::text::delta;
use lbx::text::markdown::compose::{ComposedSection, Document, headers_that_end, without_own_header};
use lbx::text::markdown::{self, Heading, lost_references, outline};
use lbx::text::merge::{ConflictLabels, EqualChanges, conflicts, merge};
use lbx::text::own_lines::{ChangedBy, SideLines};
use lbx::text::slice::{SliceBounds, SliceResult, TextSlicer};
use lbx::text::{diff, escaped, flexible, lines, nearest, replace, sketch};

use super::split;

/// Largest text that a function here may make, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// Checks that the bytes of a file come back, and that its slices join to the whole for any read size.
pub fn encodings(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let decoded = Content::of(bytes, None);
    let whole = sliced(bytes, &[ALL], usize::from(*choice), None);
    named(bytes, usize::from(*choice));
    let Ok(content) = decoded else {
        assert!(whole.is_none(), "one reader takes what another refuses");
        return;
    };
    assert_eq!(content.on_disk(&(0..content.body.len())), bytes);
    assert_eq!(content.bytes_of(&content.body), bytes.len());
    let whole = whole.expect("a slicer takes what can be decoded");
    assert_eq!((whole.encoding, whole.bom), (content.encoding, content.bom));
    assert_eq!(whole.total_lines, lines::count(&content.body));
    assert_eq!(whole.line_ending, content.line_ending());
    assert!(whole.parts[0].bytes == *content.body, "a slice of everything");
    let step = 1 + u64::from(choice % 5);
    let wanted: Vec<SliceBounds> = (0..=whole.total_lines / step)
        .take(200)
        .map(|part| SliceBounds { offset: part * step, lines_max: step, ..ALL })
        .collect();
    if wanted.len() < 200 {
        let parts = sliced(bytes, &wanted, 1 + usize::from(choice / 5), None).expect("as before").parts;
        assert!(parts.iter().flat_map(|part| &part.bytes).eq(&*content.body), "slices join to the whole");
    }
    shown(&content.body);
    assert_eq!(content.encode().as_deref(), Ok(bytes), "decoded and encoded");
}

/// Checks the same for a file whose encoding the caller names, and that any guess is a label.
fn named(bytes: &[u8], choice: usize) {
    const LABELS: [&str; 7] = ["latin1", "shift_jis", "gbk", "gb18030", "euc-kr", "big5", "euc-jp"];
    let charset: Charset = LABELS[choice % LABELS.len()].parse().expect("a label");
    for name in charset::likely_encodings(bytes).iter().flat_map(|names| names.split(" or ")) {
        name.parse::<Charset>().expect("a guess is a label");
    }
    let Ok(content) = Content::of(bytes, Some(charset)) else { return };
    // A byte-order mark says more than the caller.
    if content.encoding.charset().is_some() && !bytes.starts_with(UTF8_BOM) {
        let whole = sliced(bytes, &[ALL], choice, Some(charset)).expect("a slicer takes what can be decoded");
        assert!(whole.parts[0].bytes == *content.body, "a slice of everything");
    }
    assert_eq!(content.encode().as_deref(), Ok(bytes), "decoded and encoded");
}

/// Bounds of a whole text.
const ALL: SliceBounds = SliceBounds {
    offset: 0,
    lines_max: u64::MAX,
    skip_bytes: 0,
    room: AnswerRoom::new(0),
    clips_first: false,
};

/// Returns parts of a file that is read in pieces of `piece_bytes`; `None` if it is not text.
fn sliced(
    bytes: &[u8],
    wanted: &[SliceBounds],
    piece_bytes: usize,
    charset: Option<Charset>,
) -> Option<SliceResult> {
    let body = Content::of(bytes, charset).map(|content| content.body).unwrap_or_default();
    let mut slicer = TextSlicer::new(wanted, lines::terminator(&body), charset);
    for piece in bytes.chunks(piece_bytes.max(1)) {
        slicer.push(piece).ok()?;
    }
    slicer.finish().ok()
}

/// Checks that the displayed form of a text holds no terminal control sequence.
fn shown(body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    assert!(!escaped::line(&text).contains(escaped::is_active), "an active character is shown");
    assert!(!escaped::name(&text).contains(escaped::is_active), "an active character in a name");
    let all: Vec<&[u8]> = lines::lines(body).collect();
    for (at, line) in all.iter().enumerate().take(50) {
        let _ = escaped::visible(line);
        let _ = escaped::visible_blanks(line);
        let (first, last) = lines::enclosing_block(&all, at);
        assert!(first <= last && last < all.len(), "a block outside the text");
    }
}

/// Edits a text with an old and a new string: only the match changes.
pub fn edits(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let [body, old, new] = split(data);
    if old.is_empty() {
        return;
    }
    let places: Vec<_> =
        replace::separate_places(replace::places(body, old, choice % 2 == 1).into_iter()).collect();
    replaced(body, &places, new);
    tier(body, old, new);
    if let Some(near) = nearest::nearest(body, old) {
        let total = lines::count(body);
        assert!(1 <= near.start_line && near.start_line <= near.end_line && near.end_line <= total);
    }
    for first in 1..5 {
        let span = lines::LineSpan { first, last: first + u64::from(choice % 3) };
        if let Some(range) = lines::bytes_of(&lines::starts(body), span) {
            assert!(range.start < range.end && range.end <= body.len(), "lines outside the text");
        }
    }
    let _ = diff::unified("a", "b", body, new, 10_000);
}

/// Replaces each place, in both available ways.
fn replaced(body: &[u8], places: &[Range<usize>], new: &[u8]) {
    are_apart(places.iter(), body.len());
    let made = replace::replace(body, places, new, BYTES_MAX).expect("small texts are replaced");
    let changes = || places.iter().map(|place| (place.clone(), new));
    let all = replace::replace_each(body, changes, || lines::LineEnding::None, 20, BYTES_MAX);
    let all = all.expect("as one by one");
    assert!(made.body[..] == all.body[..] && all.count == places.len(), "all at once is as one by one");
    assert_eq!(made.ranges.len(), places.len());
    // All bytes between the places stay.
    let (mut old_at, mut new_at) = (0, 0);
    for (old, new) in places.iter().zip(&made.ranges) {
        assert_eq!(body[old_at..old.start], made.body[new_at..new.start], "a byte beside a match changed");
        (old_at, new_at) = (old.end, new.end);
    }
    assert_eq!(body[old_at..], made.body[new_at..], "a byte after the last match changed");
}

/// Looks for a text with every tier, and inserts the new text as the tier adapts it.
fn tier(body: &[u8], old: &[u8], new: &[u8]) {
    let (flat, wanted) = (replace::LfText::of(body), replace::flat_needle(old, body));
    let Some(found) = flexible::find(&flat.text, &wanted, new, &(0..flat.text.len())) else { return };
    assert!(
        !found.ranges.is_empty() && found.ranges.len() <= lbx::limits::FLEXIBLE_PLACES_MAX,
        "no place, or too many"
    );
    for place in &found.ranges {
        assert!(place.start <= place.end && place.end <= flat.text.len(), "a place outside the text");
        assert!(flat.original(place.end) <= body.len(), "a place outside the file");
    }
}

/// Returns true if ranges are in order, disjoint, and within `bytes`.
fn are_apart<'r>(ranges: impl Iterator<Item = &'r Range<usize>>, bytes: usize) {
    let mut end = 0;
    for range in ranges {
        assert!(end <= range.start && range.start <= range.end && range.end <= bytes, "{range:?} of {bytes}");
        end = range.end;
    }
}

/// Applies a sketch to a text: the changes are whole lines, in order and disjoint.
pub fn sketches(data: &[u8]) {
    let [body, drawn] = split(data);
    let flat = replace::LfText::of(body);
    let Ok(changes) = sketch::changes(&flat.text, drawn, &(0..flat.text.len()), 1) else { return };
    are_apart(changes.iter().map(|change| &change.range), flat.text.len());
    for change in &changes {
        let Range { start, end } = change.range;
        let begins = start == 0 || flat.text[start - 1] == b'\n';
        let ends = end == flat.text.len() || end == start || flat.text[end - 1] == b'\n';
        assert!(begins && ends, "a change within a line");
    }
}

/// Edits a section of a Markdown text: every byte outside the section stays.
pub fn markdown(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let [text, name, content] = split(data);
    let headings = outline(text);
    are_apart(headings.iter().map(|heading| &heading.span), text.len());
    let _ = markdown::parts(text);
    let name = String::from_utf8_lossy(name);
    for at in markdown::nearest(&headings, &name) {
        assert!(at < headings.len(), "a header that is not there");
    }
    let _ = markdown::lines_like_header(text, b'\n', &name);
    let document = Document {
        text,
        headings: &headings,
        ending: if choice % 2 == 0 { b"\n" } else { b"\r\n" },
        terminator: lines::terminator(text),
        bytes_max: BYTES_MAX,
    };
    let with_subsections = choice / 2 % 2 == 0;
    for at in markdown::find(&headings, &name, None).into_iter().take(3) {
        let _ = markdown::path_to(&headings, at);
        sections(&document, at, with_subsections, content);
    }
    let level = 1 + choice % 6;
    let title = markdown::collapse_blanks(&name);
    if let Ok(created) = document.create(headings.len().checked_sub(1), level, &title, content) {
        is_kept(text, &created);
    }
}

/// Changes one section in each way.
fn sections(document: &Document<'_>, at: usize, with_subsections: bool, content: &[u8]) {
    let heading: &Heading = &document.headings[at];
    let _ = without_own_header(content, heading);
    let _ = headers_that_end(content, heading.level, with_subsections);
    let composed =
        [document.replace(at, with_subsections, content), document.append(at, with_subsections, content)];
    for composed in composed.into_iter().flatten() {
        is_kept(document.text, &composed);
        let _ = lost_references(document.text, &composed.text);
    }
}

/// Checks that every byte outside the changed section stays.
fn is_kept(text: &[u8], composed: &ComposedSection) {
    let Range { start, end } = composed.old;
    assert!(composed.text.starts_with(&text[..start]), "a byte before the section changed");
    assert!(composed.text.ends_with(&text[end..]), "a byte after the section changed");
    assert!(composed.new.end <= composed.text.len(), "the new content lies outside the text");
}

/// Merges two changes of a text.
pub fn merges(data: &[u8]) {
    let [base, one, other] = split(data);
    let merged = merge(base, one, other, EqualChanges::Once);
    assert_eq!(
        merged,
        merge(base, other, one, EqualChanges::Once),
        "a merge depends on the order of the sides"
    );
    assert!(
        merge(base, base, other, EqualChanges::Conflict).is_ok_and(|made| made == other),
        "a change alone"
    );
    assert!(merge(base, one, one, EqualChanges::Once).is_ok_and(|made| made == one), "the same change twice");
    if merged.is_err() {
        let _ =
            conflicts(base, one, other, ConflictLabels { base: "base", one: "one", other: "other" }, 10_000);
    }
    let mut own = SideLines::of(Some(base));
    own.change(ChangedBy::Others, other);
    assert!(own.before() == other && own.added().is_empty(), "a change of others is the side's");
    own.change(ChangedBy::Side, one);
    let before = own.before();
    own.change(ChangedBy::Side, one);
    assert!(own.before() == before, "no change, and something is the side's");
}

/// Checks that a delta makes its target, and that any bytes are refused or make the size that they state.
pub fn deltas(data: &[u8]) {
    let [source, target, bytes] = split(data);
    let made = delta::encode(source, target, usize::MAX).expect("both are small");
    assert!(delta::apply(&made, source, BYTES_MAX).as_deref() == Some(target));
    assert!(made.len() <= target.len() + target.len() / 100 + 32, "{} for {}", made.len(), target.len());
    if let Some(content) = delta::apply(bytes, source, BYTES_MAX) {
        assert_eq!(delta::size_after(bytes), Some(content.len()));
    }
}
