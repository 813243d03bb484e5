//! From a weight to pods (reference 5.4), in integers.

use crate::ids::Weight;

/// How many pods of each track stand for a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Pods of the candidate.
    pub candidate: u32,
    /// Pods of stable.
    pub stable: u32,
}

/// Splits `total` pods by `weight`: rounded half away from zero; below two pods all or nothing, from 50 on.
pub fn split(total: u32, weight: Weight) -> Split {
    let candidate = if total < 2 {
        if weight.percent() >= 50 { total } else { 0 }
    } else {
        let (total, weight) = (u64::from(total), u64::from(weight.percent()));
        u32::try_from((2 * total * weight + 100) / 200).unwrap_or(u32::MAX)
    };
    Split { candidate, stable: total - candidate }
}

/// The weight that `candidate` of `candidate + stable` pods deliver; 0 where there are none.
pub fn delivered(candidate: u32, stable: u32) -> Weight {
    let (candidate, total) = (u64::from(candidate), u64::from(candidate) + u64::from(stable));
    if total == 0 {
        return Weight::ZERO;
    }
    Weight::new((200 * candidate + total) / (2 * total)).unwrap_or(Weight::FULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_of(total: u32, percent: u64) -> (u32, u32, u32) {
        let split = split(total, Weight::new(percent).unwrap());
        (split.candidate, split.stable, delivered(split.candidate, split.stable).percent())
    }

    #[test]
    fn weights_become_pods_as_in_the_acceptance_table() {
        // Reference 6.12, row 179, and 5.4.
        assert_eq!(split_of(10, 10), (1, 9, 10));
        assert_eq!(split_of(10, 50), (5, 5, 50));
        assert_eq!(split_of(10, 100), (10, 0, 100));
        assert_eq!(split_of(10, 0), (0, 10, 0));
        assert_eq!(split_of(4, 50), (2, 2, 50));
        assert_eq!(split_of(4, 10), (0, 4, 0));
        assert_eq!(split_of(3, 50), (2, 1, 67));
        assert_eq!(split_of(1, 50), (1, 0, 100));
        assert_eq!(split_of(1, 49), (0, 1, 0));
    }

    #[test]
    fn each_pod_comes_at_its_threshold() {
        let first = |total: u32, pods: u32| (0..=100).find(|w| split_of(total, *w).0 == pods).unwrap();
        assert_eq!((first(2, 1), first(2, 2)), (25, 75));
        assert_eq!((first(3, 1), first(3, 2), first(3, 3)), (17, 50, 84));
        assert_eq!((first(4, 1), first(4, 2), first(4, 3), first(4, 4)), (13, 38, 63, 88));
        assert_eq!((1..=5).map(|pods| first(5, pods)).collect::<Vec<_>>(), [10, 30, 50, 70, 90]);
        let delivered: Vec<u32> = (1..8).map(|pods| delivered(pods, 8 - pods).percent()).collect();
        assert_eq!(delivered, [13, 25, 38, 50, 63, 75, 88]);
    }

    #[test]
    fn no_pods_are_lost_or_made_and_more_weight_is_never_fewer_pods() {
        for total in 0..60 {
            let mut last = 0;
            for percent in 0..=100 {
                let (candidate, stable, _) = split_of(total, percent);
                assert_eq!(candidate + stable, total);
                assert!(candidate >= last);
                last = candidate;
            }
        }
        assert_eq!(delivered(0, 0), Weight::ZERO);
    }
}
