//! Similarity of short texts, and the names that are most similar to a given one.

use crate::text::line_diff;

/// Groups of characters that are counted together.
const GROUPS: usize = 64;

/// Returns the similarity of two texts by their characters, from 0 (nothing in common) to 1 (equal).
pub fn ratio(one: &str, other: &str) -> f32 {
    ratio_of(&characters(one), &characters(other))
}

/// Returns the similarity of two lists of characters.
fn ratio_of(one: &[u32], other: &[u32]) -> f32 {
    similar::diff_ratio(&line_diff::of_numbers(one, other), one.len(), other.len())
}

/// Returns the characters of a text.
fn characters(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

/// Returns the `most` candidates that are most similar to a name, each at least `least` (0 to 1), best first. Ties are
/// sorted by name.
///
/// `similar::get_close_matches` does the same, but brings all algorithms of that package, 4 % of the binary.
pub fn nearest<'a>(name: &str, candidates: &[&'a str], most: usize, least: f32) -> Vec<&'a str> {
    let name = characters(name);
    let mut counts = [0_i32; GROUPS];
    name.iter().for_each(|character| *group(&mut counts, *character) += 1);
    let mut near: Vec<(f32, &str)> = candidates
        .iter()
        .filter_map(|candidate| {
            let characters = characters(candidate);
            let is_possible = ratio_max(name.len(), counts, &characters) >= least;
            let ratio = if is_possible { ratio_of(&name, &characters) } else { 0.0 };
            (is_possible && ratio >= least).then_some((ratio, *candidate))
        })
        .collect();
    near.sort_by(|(one, first), (other, second)| other.total_cmp(one).then_with(|| first.cmp(second)));
    near.truncate(most);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns a bound of the similarity, without regard to the order: `counts` has the groups of a text with `length`
/// characters.
#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn ratio_max(length: usize, mut counts: [i32; GROUPS], other: &[u32]) -> f32 {
    let common = other.iter().filter(|character| {
        let left = group(&mut counts, **character);
        *left -= 1;
        *left >= 0
    });
    let (common, all) = (common.count(), length + other.len());
    if all == 0 { 1.0 } else { 2.0 * common as f32 / all as f32 }
}

/// Returns the count of a character's group.
#[expect(clippy::indexing_slicing, reason = "the remainder is within the array")]
fn group(counts: &mut [i32; GROUPS], character: u32) -> &mut i32 {
    &mut counts[character as usize % GROUPS]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results equal those of the library, computed on its own copies.
    #[test]
    fn nearest_names_equal_those_of_similar() {
        let names =
            ["ape", "apple", "peach", "puppy", "Apfel", "", "read", "reads", "raed", "größe", "grosse"];
        for name in names.iter().chain(&["appel", "rea", "grösse", "x", "peachpeach"]) {
            for least in [0.0, 0.5, 0.6, 0.85, 1.0] {
                let wanted = similar::get_close_matches(*name, &names, 4, least);
                assert_eq!(nearest(name, &names, 4, least), wanted, "{name} {least}");
            }
        }
    }
}
