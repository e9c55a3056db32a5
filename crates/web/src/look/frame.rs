//! What surrounds each page: head, bar, tabs.

use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::encoding::segment;

/// The pages of a repository that have a tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// Its snapshots, and what is in them.
    Snapshots,
    /// Looks for names in all snapshots.
    Search,
    /// Two snapshots side by side.
    Compare,
    /// What rules of removal would keep.
    Retention,
    /// What runs and has run.
    Jobs,
    /// The targets, and what could be lost.
    Redundancy,
}

impl Tab {
    /// Each with its text and the end of its address.
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Snapshots, "Snapshots", ""),
        (Self::Search, "Search", "/search"),
        (Self::Compare, "Compare", "/compare"),
        (Self::Retention, "Retention", "/retention"),
        (Self::Jobs, "Jobs", "/jobs"),
        (Self::Redundancy, "Redundancy", "/redundancy"),
    ];
}

/// Where a page is.
#[derive(Clone, Copy)]
pub struct Nav<'a> {
    /// The name of the repository.
    pub place: &'a str,
    /// The tab under which the page is.
    pub tab: Tab,
}

/// The address of the first page of a repository.
pub fn place_address(place: &str) -> String {
    format!("/repository/{}", segment(place.as_bytes()))
}

/// A whole page. Without `nav` it belongs to no repository.
pub fn frame(title: &str, nav: Option<Nav<'_>>, body: Markup) -> Markup {
    let shown = nav.map(|nav| tabane_text::printable(nav.place));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) @if let Some(place) = &shown { " · " (place) } " · Tabane" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="stylesheet" href=(assets::STYLE.address());
                link rel="icon" type="image/svg+xml" href=(assets::ICON.address());
                script src=(assets::SCRIPT.address()) defer {}
            }
            body {
                a class="skip" href="#main" { "Skip to the content" }
                header class="bar" {
                    a class="brand" href="/" { (assets::mark()) "Tabane" }
                    @if let (Some(nav), Some(shown)) = (nav, &shown) {
                        a class="place" href=(place_address(nav.place)) { bdi { (shown) } }
                        nav class="tabs" aria-label="Pages of this repository" {
                            @for (tab, text, end) in Tab::ALL {
                                a href={ (place_address(nav.place)) (end) }
                                    aria-current=[(tab == nav.tab).then_some("page")] { (text) }
                            }
                        }
                    }
                }
                main id="main" tabindex="-1" { (body) }
            }
        }
    }
}
