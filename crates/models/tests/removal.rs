//! Removal: the rules are enough, and none of them is too much.

use std::time::Instant;

use tabane_models::removal::prune::Judgement;
use tabane_models::removal::{
    CLEAN_AT_THE_END, CONFIRMED_IS_WHOLE, ONLY_ANNOUNCED_LACKS, Removal, Rule,
};
use tabane_models::report::{Found, Traces, explore};

/// Refutations that take longer are none for a test of seconds.
const STEPS_MAX: usize = 12_000_000;

fn assert_holds(what: &str, model: Removal) -> Found {
    let since = Instant::now();
    let found = explore(model, 2, None, Traces::Any);
    found.print(what, since);
    found.assert_holds();
    found
}

#[test]
fn a_backup_a_prune_and_a_forget_lose_nothing_in_any_order() {
    let found = assert_holds("a backup, a prune, a forget", Removal::new(1, 1));
    assert_eq!(found.never, [""; 0], "the model never gets that far");
    let mut cached = Removal::new(1, 1);
    cached.cached = 1;
    cached.forgets_all = true;
    assert_holds("the same with a cache, and all is forgotten", cached);
    let sooner = Removal::new(1, 1).without(&[Rule::LastBeforeStays]);
    assert_holds("the same, and removals go sooner", sooner);
}

#[test]
fn a_write_only_key_changes_nothing_of_that() {
    let mut model = Removal::new(1, 1);
    model.write_only = 1;
    let found = assert_holds("a backup with a write-only key, a prune", model.clone());
    // It cannot copy, and is made again as another backup.
    let never = ["a backup copies out of condemned packs"];
    assert_eq!(found.never, never, "the model never gets that far");
    model.cached = 1;
    model.forgets_all = true;
    assert_holds("the same with a cache, and all is forgotten", model);
}

#[test]
fn what_a_prune_has_verified_stays_named() {
    let mut model = Removal::new(1, 2);
    model.write_only = 1;
    model.forgets_all = true;
    model.prunes_follow = true;
    model.judgements = vec![Judgement::AllDead];
    // The other prune has removed what the write-only key said of it.
    assert_refuted_somehow(&[Rule::VerifiedStays], model.clone(), CONFIRMED_IS_WHOLE);
    assert_holds("a backup with a write-only key, then two prunes", model);
}

/// Wants the model without `rules` to break an invariant, and prints how.
fn assert_refuted(rules: &[Rule], model: Removal, invariant: &'static str) {
    let since = Instant::now();
    let found = explore(
        model.without(rules),
        2,
        Some(STEPS_MAX),
        Traces::Short(invariant),
    );
    found.print(&format!("without {rules:?}"), since);
    let trace = found.refuted.iter().find(|(name, _)| *name == invariant);
    let (_, trace) = trace.expect("nothing is lost: is the rule needed?");
    assert!(!trace.is_empty());
}

#[test]
fn without_rule_1_a_confirmed_snapshot_is_lost() {
    let rules = [Rule::RemovalFirst];
    assert_refuted(&rules, Removal::new(1, 1), CONFIRMED_IS_WHOLE);
}

#[test]
fn without_either_half_of_rule_2_a_confirmed_snapshot_is_lost() {
    assert_refuted(&[Rule::ListAgain], Removal::new(1, 1), CONFIRMED_IS_WHOLE);
    assert_refuted(&[Rule::CopyOut], Removal::new(1, 1), CONFIRMED_IS_WHOLE);
}

/// A list that is made early lacks what a later one relies on.
#[test]
fn if_a_prune_lists_all_at_once_but_not_twice_a_confirmed_snapshot_is_lost() {
    let mut model = Removal::new(1, 2);
    model.is_far = true;
    assert_refuted_somehow(&[Rule::ListTwice], model, CONFIRMED_IS_WHOLE);
    for (backups, prunes) in [(1, 1), (0, 2)] {
        let mut model = Removal::new(backups, prunes);
        model.is_far = true;
        assert_holds("the same, far away", model);
    }
}

#[test]
fn without_any_part_of_rule_3_a_snapshot_is_lost() {
    let condemned = [Rule::CondemnedIsAbsent];
    assert_refuted(&condemned, Removal::new(1, 1), CONFIRMED_IS_WHOLE);
    let after = [Rule::ListAfter];
    assert_refuted(&after, Removal::new(1, 1), CONFIRMED_IS_WHOLE);
    // Nobody was told of it, but nothing says so any more.
    let pending = [Rule::PendingFirst];
    assert_refuted(&pending, Removal::new(1, 1), ONLY_ANNOUNCED_LACKS);
}

#[test]
fn if_the_last_removal_does_not_stay_a_confirmed_snapshot_is_lost() {
    let rules = [Rule::LastRemovalStays];
    assert_refuted(&rules, Removal::new(1, 1), CONFIRMED_IS_WHOLE);
}

/// As [`assert_refuted`], but by any trace: the shortest one is too deep.
fn assert_refuted_somehow(rules: &[Rule], model: Removal, invariant: &'static str) {
    let since = Instant::now();
    let found = explore(
        model.without(rules),
        1,
        Some(STEPS_MAX),
        Traces::First(invariant),
    );
    found.print(&format!("without {rules:?}"), since);
    assert!(found.refutes(invariant), "{rules:?}: is the rule needed?");
}

#[test]
fn if_a_writer_takes_back_what_is_only_condemned_a_confirmed_snapshot_is_lost() {
    let rules = [Rule::OnlyGoneIsTakenBack];
    let mut model = Removal::new(2, 1);
    model.judgements = vec![Judgement::AllDead];
    assert_refuted_somehow(&rules, model, CONFIRMED_IS_WHOLE);
}

#[test]
fn if_a_prune_writes_index_objects_that_name_condemned_packs_they_outlive_these() {
    // Removals go sooner than they do, so that two prunes are enough.
    let rules = [Rule::RewriteDropsCondemned, Rule::LastBeforeStays];
    assert_refuted_somehow(&rules, Removal::new(1, 2), CLEAN_AT_THE_END);
}

#[test]
fn if_a_prune_does_not_look_around_a_snapshot_is_lost() {
    assert_refuted_somehow(
        &[Rule::RewriteWaits],
        Removal::new(1, 2),
        ONLY_ANNOUNCED_LACKS,
    );
}

/// Of the packs that one index object names, one goes and another is condemned just then.
#[test]
fn if_a_prune_rewrites_the_index_after_its_removal_a_confirmed_snapshot_is_lost() {
    let mut model = Removal::new(1, 1);
    model.half_removed = true;
    let rules = [Rule::RewriteBeforeRemoval];
    assert_refuted(&rules, model.clone(), CONFIRMED_IS_WHOLE);
    assert_holds("a backup and a prune after half a removal", model);
}
