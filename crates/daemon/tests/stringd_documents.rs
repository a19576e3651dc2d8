//! Document topics of a real daemon: navigation, actions, editing, variables, packages, tools and pages.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step ends the test")]

#[path = "stringd_documents/actions.rs"]
mod actions;
#[path = "stringd_documents/editing.rs"]
mod editing;
#[path = "stringd_documents/navigation.rs"]
mod navigation;
#[path = "stringd_documents/packages.rs"]
mod packages;
#[path = "stringd_documents/pages.rs"]
mod pages;
#[path = "stringd_documents/served.rs"]
mod served;
#[path = "stringd_documents/stores.rs"]
mod stores;
#[path = "stringd_documents/web.rs"]
mod web;
