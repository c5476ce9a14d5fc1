//! Similarity of short texts, and the names that are most similar to a given one.

use std::cmp::Ordering;

use crate::text::line_diff;

/// Returns the similarity of two texts by their characters, from 0 (nothing in common) to 1 (equal).
#[must_use]
pub fn ratio(one: &str, other: &str) -> f32 {
    ratio_of(&characters(one), &characters(other))
}

/// Returns the `most` candidates that are most similar to a name, each at least `least` (0 to 1), best first. Ties are
/// sorted by name.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: &[&'a str], most: usize, least: f32) -> Vec<&'a str> {
    let name = characters(name);
    let letters = sorted(&name);
    let mut near: Vec<(f32, &str)> = Vec::new();
    for &candidate in candidates {
        let candidate_name = characters(candidate);
        // Most candidates differ too much in their length or their letters.
        let can_share = name.len().min(candidate_name.len());
        if share(can_share, &name, &candidate_name) < least
            || share(common(&letters, &sorted(&candidate_name)), &name, &candidate_name) < least
        {
            continue;
        }
        let ratio = ratio_of(&name, &candidate_name);
        if ratio >= least {
            near.push((ratio, candidate));
        }
    }
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    near.truncate(most);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Returns the [`ratio`] of two lists of characters.
fn ratio_of(one: &[u32], other: &[u32]) -> f32 {
    similar::diff_ratio(&line_diff::of_numbers(one, other), one.len(), other.len())
}

/// Returns the characters of a text as numbers.
fn characters(text: &str) -> Vec<u32> {
    text.chars().map(u32::from).collect()
}

/// Returns the characters sorted by number.
fn sorted(characters: &[u32]) -> Vec<u32> {
    let mut sorted = characters.to_vec();
    sorted.sort_unstable();
    sorted
}

/// Counts the characters that two sorted lists have in common.
fn common(one: &[u32], other: &[u32]) -> usize {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut count = 0;
    while let (Some(left), Some(right)) = (one.peek(), other.peek()) {
        match left.cmp(right) {
            Ordering::Less => _ = one.next(),
            Ordering::Greater => _ = other.next(),
            Ordering::Equal => {
                one.next();
                other.next();
                count += 1;
            }
        }
    }
    count
}

/// Returns the ratio of two texts with `same` characters in common.
#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn share(same: usize, one: &[u32], other: &[u32]) -> f32 {
    match one.len() + other.len() {
        0 => 1.0,
        all => 2.0 * same as f32 / all as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results equal those of the library, computed on its own copies.
    #[test]
    fn the_nearest_names_are_those_of_the_library() {
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
