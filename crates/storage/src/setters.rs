//! Setters of options, which take and return them by value.

/// Gives a struct of options a setter for each named field:
///
/// - `set`: takes a value of the field's type;
/// - `into`: takes a value that converts into the field's type, as `&str` into a `String`;
/// - `each one`: the field is a `Vec`; its setter adds several, and `one` adds one.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($options:ident { $($kind:ident $($one:ident)? => $field:ident: $type:ty,)* }) => {
        impl $options {
            $($crate::setters!(@$kind $($one)? $options $field $type);)*
        }
    };
    (@set $options:ident $field:ident $type:ty) => {
        #[doc = concat!(
            "Sets [`", stringify!($options), "::", stringify!($field), "`](Self#structfield.",
            stringify!($field), ").",
        )]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    };
    (@into $options:ident $field:ident $type:ty) => {
        #[doc = concat!(
            "Sets [`", stringify!($options), "::", stringify!($field), "`](Self#structfield.",
            stringify!($field), ").",
        )]
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = $field.into();
            self
        }
    };
    (@each $one:ident $options:ident $field:ident $type:ty) => {
        #[doc = concat!("Adds one to \
        [`", stringify!($options), "::", stringify!($field), "`](Self#structfield.",
            stringify!($field), ").")]
        #[must_use]
        pub fn $one(mut self, $one: impl Into<$type>) -> Self {
            self.$field.push($one.into());
            self
        }

        #[doc = concat!("Adds several to \
        [`", stringify!($options), "::", stringify!($field), "`](Self#structfield.",
            stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: impl IntoIterator<Item = impl Into<$type>>) -> Self {
            self.$field.extend($field.into_iter().map(Into::into));
            self
        }
    };
}
