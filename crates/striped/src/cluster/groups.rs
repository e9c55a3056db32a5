//! Divides the nodes of a new cluster into groups.

use std::collections::BTreeMap;

use crate::container::{GENERATION_MAX, ROLES_MAX};
use crate::set::TARGETS_MAX;

/// Divides nodes, of which each is in a rack or in none, into groups of about `size`, or into one
/// group. Returns the number of each node's group, from 0. No two nodes of a group are in one rack.
///
/// # Errors
/// A sentence, when there is no such division.
pub fn divide(racks: &[Option<&str>], size: Option<usize>) -> Result<Vec<u8>, String> {
    let nodes = racks.len();
    let size = size.unwrap_or(nodes).max(1);
    let groups = ((nodes + size / 2) / size).max(1);
    if groups > usize::from(GENERATION_MAX) || nodes > TARGETS_MAX {
        return Err(format!(
            "a cluster has at most {GENERATION_MAX} groups and {TARGETS_MAX} nodes, and these are \
             {nodes} nodes in {groups} groups"
        ));
    }
    let of_group = nodes / groups..=nodes.div_ceil(groups);
    if *of_group.end() > ROLES_MAX {
        return Err(format!(
            "a group has at most {ROLES_MAX} nodes, and these are {nodes}: choose the size of \
             groups"
        ));
    }
    if *of_group.start() < 3 {
        let made = if groups == 1 {
            "too few".to_owned()
        } else {
            format!("too few for {groups} groups")
        };
        return Err(format!(
            "surviving the loss of two nodes takes at least 3 in each group, and {nodes} nodes \
             are {made}"
        ));
    }
    let mut of_rack: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (node, rack) in racks.iter().enumerate() {
        if let Some(rack) = rack {
            of_rack.entry(rack).or_default().push(node);
        }
    }
    if let Some((rack, inside)) = of_rack.iter().find(|(_, nodes)| nodes.len() > groups) {
        return Err(format!(
            "rack {rack} has {} nodes, of which each must be in another group, and there {}: \
             choose smaller groups",
            inside.len(),
            if groups == 1 {
                "is one".to_owned()
            } else {
                format!("are {groups}")
            }
        ));
    }
    let alone = (0..nodes).filter(|&node| racks[node].is_none());
    let in_turn = of_rack.into_values().flatten().chain(alone);
    let mut of_node = vec![0; nodes];
    for (turn, node) in in_turn.enumerate() {
        of_node[node] = (turn % groups) as u8;
    }
    Ok(of_node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_rack_are_in_different_groups_of_equal_size() {
        for (nodes, racks, size, groups) in [
            (12, 6, 6, 2),
            (24, 6, 6, 4),
            (17, 0, 6, 3),
            (11, 0, 6, 2),
            (100, 20, 8, 13),
            (13, 13, 13, 1),
        ] {
            let names: Vec<String> = (0..racks).map(|rack| format!("r{rack}")).collect();
            let racks: Vec<Option<&str>> = (0..nodes)
                .map(|node| (racks > 0).then(|| &*names[node % racks]))
                .collect();
            let divided = divide(&racks, Some(size)).unwrap();
            let mut sizes = vec![0; groups];
            for &group in &divided {
                sizes[usize::from(group)] += 1;
            }
            let most = sizes.iter().max().unwrap();
            assert!(sizes.iter().all(|size| size + 1 >= *most), "{sizes:?}");
            for one in 0..nodes {
                for other in 0..one {
                    let is_apart = divided[one] != divided[other] || racks[one] != racks[other];
                    assert!(is_apart || racks[one].is_none(), "{one} and {other}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_divided_is_refused() {
        let none = |nodes| vec![None; nodes];
        assert_eq!(divide(&none(5), None), Ok(vec![0; 5]));
        assert!(divide(&none(33), None).unwrap_err().contains("at most 32"));
        assert!(
            divide(&none(8), Some(2))
                .unwrap_err()
                .contains("at least 3")
        );
        let same = [Some("r"), Some("r"), None, None, None, None];
        assert!(divide(&same, None).unwrap_err().contains("rack r has 2"));
        let divided = divide(&same, Some(3)).unwrap();
        assert_ne!(divided[0], divided[1]);
        assert!(divide(&[], None).unwrap_err().ends_with("are too few"));
    }
}
