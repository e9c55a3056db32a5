//! Where what is.

use tabane_parity::{Content, Error, Layout, encode_plan, update_plan};

/// A cell as the paper writes it: the letters of the data that it is the sum of.
fn letters(layout: &Layout, cell: usize) -> String {
    let name = |block: usize| char::from(b'A' + block as u8);
    if let Content::Data(block) = layout.content(cell) {
        return name(block).to_string();
    }
    let plan = encode_plan(layout);
    let step = plan.steps.iter().find(|step| step.into == cell).unwrap();
    let mut blocks: Vec<String> = step
        .from
        .iter()
        .map(|&cell| letters(layout, cell))
        .collect();
    blocks.sort();
    blocks.join("+")
}

#[test]
fn five_roles_are_figure_3_of_the_paper() {
    let layout = Layout::new(5).unwrap();
    let figure = [
        ["A", "B", "C", "A+B+C", "A+I+K"],
        ["D", "E", "D+E+F", "F", "B+D+L"],
        ["G", "G+H+I", "H", "I", "C+E+G"],
        ["J+K+L", "J", "K", "L", "F+H+J"],
    ];
    assert_eq!((layout.rows(), layout.roles()), (4, 5));
    for (row, blocks) in figure.iter().enumerate() {
        for (role, block) in blocks.iter().enumerate() {
            assert_eq!(letters(&layout, layout.cell(role, row)), *block);
        }
    }
}

#[test]
fn every_cell_has_its_place() {
    for roles in 3..=32 {
        let layout = Layout::new(roles).unwrap();
        let rows = layout.rows();
        assert_eq!(layout.data_cells().len(), rows * (roles - 2), "{roles}");
        let mut parities = 0;
        for cell in 0..layout.cells() {
            assert_eq!(layout.cell(layout.role_of(cell), layout.row_of(cell)), cell);
            match layout.content(cell) {
                Content::Data(block) => assert_eq!(layout.data_cells()[block], cell),
                Content::RowParity(row) => {
                    assert_eq!(layout.row_parity(row), cell);
                    // Elsewhere only where its column is missing.
                    let in_place = layout.diagonal_of(cell).is_none();
                    assert_eq!(in_place, layout.prime() - 2 - row < roles - 1, "{roles}");
                    parities += 1;
                }
                Content::DiagonalParity(diagonal) => {
                    assert_eq!(layout.diagonal_parity(diagonal), cell);
                    assert!(layout.diagonals().any(|one| one == diagonal), "{roles}");
                    assert_eq!(layout.diagonal_of(cell), None);
                    parities += 1;
                }
            }
        }
        assert_eq!(parities, 2 * rows, "{roles}");
        let of_a_role = |role: usize| {
            let cells = layout.cells_of_role(role);
            cells
                .filter(|&cell| matches!(layout.content(cell), Content::RowParity(_)))
                .count()
        };
        let counts: Vec<usize> = (0..roles - 1).map(of_a_role).collect();
        assert!(counts.iter().all(|&count| count <= 2), "{counts:?}");
    }
}

#[test]
fn equations_are_those_of_the_definition() {
    for roles in 3..=24 {
        let layout = Layout::new(roles).unwrap();
        let place = |&cell: &usize| (layout.role_of(cell), layout.row_of(cell));
        let sorted = |mut set: Vec<(usize, usize)>| {
            set.sort_unstable();
            set
        };
        let ours = layout.equations();
        let ours = ours
            .iter()
            .map(|set| sorted(set.iter().map(place).collect()));
        let theirs = super::reference::equations(roles).into_iter().map(sorted);
        assert!(ours.eq(theirs), "{roles}");
    }
}

#[test]
fn encoding_and_updates_cost_what_they_should() {
    let xors_of_a_block = |roles: usize| {
        let layout = Layout::new(roles).unwrap();
        encode_plan(&layout).xors() as f64 / layout.data_cells().len() as f64
    };
    for (roles, xors) in [(5, 1.33), (7, 1.60), (32, 1.93)] {
        assert!((xors_of_a_block(roles) - xors).abs() < 0.005, "{roles}");
    }
    for roles in 3..=32 {
        let layout = Layout::new(roles).unwrap();
        let blocks = layout.data_cells().len();
        let parities: usize = (0..blocks)
            .map(|block| update_plan(&layout, &[block]).steps.len())
            .sum();
        let mean = parities as f64 / blocks as f64;
        let prime = layout.prime();
        if prime == roles || prime == roles - 1 {
            assert_eq!(parities, 2 * blocks, "{roles}")
        } else {
            assert!(mean > 2.0 && mean <= 2.21, "{roles}: {mean}")
        }
    }
}

#[test]
fn two_roles_are_too_few() {
    for roles in 0..3 {
        assert_eq!(Layout::new(roles), Err(Error::TooFewRoles(roles)));
    }
}

#[test]
fn errors_say_what_is_wrong() {
    for (error, text) in [
        (
            Error::TooFewRoles(2),
            "2 targets are too few: surviving the loss of two takes at least 3",
        ),
        (
            Error::NoSuchRole { role: 5, roles: 5 },
            "there is no target 5: 5 targets are numbered 0 to 4",
        ),
        (Error::RoleTwice(1), "target 1 is named twice"),
        (
            Error::TooManyLost(3),
            "3 lost targets are too many: any two can be rebuilt, no more",
        ),
        (
            Error::Unrecoverable(vec![4, 7]),
            "2 cells cannot be recovered from the others",
        ),
        (
            Error::CellCount {
                given: 3,
                expected: 20,
            },
            "3 buffers given for a stripe of 20 cells",
        ),
        (
            Error::CellLength(6),
            "the buffer of cell 6 is not as long as the others",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
