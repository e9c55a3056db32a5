//! `tabane web`: the page over plain HTTP, what an attacker would try, and the page in a browser.

mod browser;
mod certificates;
mod dav;
mod hostile;
mod jobs;
mod pages;
mod penetration;
mod redundancy;
mod served;
