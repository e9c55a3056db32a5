//! An independent implementation of the code, from its definition: the sets of cells that add up to
//! zero, and Gaussian elimination for missing cells.

/// Cell (role, row).
pub type Place = (usize, usize);

pub fn prime(n: usize) -> usize {
    let is_prime = |p: usize| (2..p).all(|divisor| !p.is_multiple_of(divisor));
    (3.max(n - 1)..).find(|&p| is_prime(p)).unwrap()
}

/// Sets of cells that add up to zero.
pub fn equations(n: usize) -> Vec<Vec<Place>> {
    let p = prime(n);
    let mut sets = Vec::new();
    for row in 0..p - 1 {
        sets.push((0..n - 1).map(|column| (column, row)).collect());
    }
    for (number, diagonal) in (0..p).filter(|&diagonal| diagonal != p - 2).enumerate() {
        let mut set = vec![(n - 1, number)];
        for row in 0..p - 1 {
            for column in 0..n - 1 {
                if (row + column) % p == diagonal {
                    set.push((column, row));
                }
            }
        }
        sets.push(set);
    }
    sets
}

/// Solves for the missing cells; none if they are not determined. `value` gives the bytes of the
/// others.
pub fn solve(
    n: usize,
    missing: &[Place],
    value: impl Fn(Place) -> Vec<u8>,
    len: usize,
) -> Option<Vec<Vec<u8>>> {
    let mut rows: Vec<(Vec<bool>, Vec<u8>)> = equations(n)
        .iter()
        .map(|set| {
            let unknown = missing.iter().map(|place| set.contains(place)).collect();
            let mut sum = vec![0; len];
            for &place in set.iter().filter(|place| !missing.contains(place)) {
                add(&mut sum, &value(place));
            }
            (unknown, sum)
        })
        .collect();
    for unknown in 0..missing.len() {
        let pivot = (unknown..rows.len()).find(|&row| rows[row].0[unknown])?;
        rows.swap(unknown, pivot);
        let (of, sum) = rows[unknown].clone();
        for (number, row) in rows.iter_mut().enumerate() {
            if number != unknown && row.0[unknown] {
                row.0
                    .iter_mut()
                    .zip(&of)
                    .for_each(|(one, other)| *one ^= other);
                add(&mut row.1, &sum);
            }
        }
    }
    assert!(
        rows[missing.len()..]
            .iter()
            .all(|(_, rest)| rest.iter().all(|&byte| byte == 0))
    );
    Some(
        rows.into_iter()
            .take(missing.len())
            .map(|(_, sum)| sum)
            .collect(),
    )
}

fn add(sum: &mut [u8], other: &[u8]) {
    sum.iter_mut()
        .zip(other)
        .for_each(|(sum, byte)| *sum ^= byte);
}
