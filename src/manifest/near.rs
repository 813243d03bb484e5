//! "Did you mean": which known name a misspelt one was meant to be.

/// The known name that `name` was most likely meant to be: the same letters in another spelling
/// (`set_weight`, `setweight`), or at most two typing slips away, one for short names.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = letters(name);
    let limit = if name.chars().count() < 6 { 1 } else { 2 };
    known
        .into_iter()
        .filter(|other| *other != name)
        .filter_map(|other| {
            let slips = if letters(other) == plain { 0 } else { distance(name, other) };
            (slips <= limit).then_some((slips, other))
        })
        .min()
        .map(|(_, other)| other)
}

fn letters(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// How many single slips (a letter too many, too few, another one, two swapped) lie between two names.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Names differ by two at most to be near, so that the table need not be made for most pairs.
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_one_that_was_meant() {
        let known = ["setWeight", "pause", "analysis", "mode"];
        for (name, meant) in [
            ("setWieght", Some("setWeight")),
            ("set_weight", Some("setWeight")),
            ("setweight", Some("setWeight")),
            ("setWeights", Some("setWeight")),
            ("puase", Some("pause")),
            ("analisys", Some("analysis")),
            ("mod", Some("mode")),
            ("weight", None),
            ("media", None),
            ("nod", None),
            ("completely", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
    }
}
