//! The declaration of a label's values.

/// Declares a label's values: an enum with the text of each value.
macro_rules! values {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$each])* #[serde(rename = $text)] $value,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value,)*];

            /// The text in metrics and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }
    };
}

pub(super) use values;
