//! Tables: what `kubectl get` shows of a kind, column by column.

use jiff::Timestamp;
use serde_json::Value;

use crate::cells;

/// Makes the cell of one column.
pub type CellFn = fn(&Value, Timestamp) -> Value;

/// A column of a Table, as it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// The type of its cells (`string`, `integer`, `date`).
    pub ty: String,
    /// The format of its cells (`name`), mostly empty.
    pub format: String,
    /// What it means; empty if that is the description of a field.
    pub description: String,
    /// The type (by its published name) and field whose description is that of the column.
    pub doc: Option<(String, String)>,
    /// 0 for what is always shown, more for `-o wide`.
    pub priority: i32,
}

/// A column of a built-in kind.
#[derive(Debug, Clone, Copy)]
pub struct TableColumn {
    name: &'static str,
    ty: &'static str,
    format: &'static str,
    about: About,
    priority: i32,
    cell: CellFn,
}

/// What a column means.
#[derive(Debug, Clone, Copy)]
pub enum About {
    /// In these words.
    Words(&'static str),
    /// As the field of a type is described (`core.v1.PodSpec`, `nodeName`).
    Field(&'static str, &'static str),
}

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The name of the object.
pub(crate) const NAME: TableColumn = TableColumn {
    format: "name",
    ..column("Name", "string", About::Field(METADATA, "name"), |o, _| cells::text(o, "metadata.name"))
};
/// The age of the object.
pub(crate) const AGE: TableColumn = column("Age", "string", About::Field(METADATA, "creationTimestamp"), cells::age);
/// When the object was created.
const CREATED_AT: TableColumn = column("Created At", "date", About::Field(METADATA, "creationTimestamp"), |o, _| {
    cells::at(o, "metadata.creationTimestamp").clone()
});

/// The columns of kinds that have none of their own.
pub(crate) static PLAIN: &[TableColumn] = &[NAME, CREATED_AT];
/// Name and age.
pub(crate) static NAME_AND_AGE: &[TableColumn] = &[NAME, AGE];

/// A column that is always shown.
pub(crate) const fn column(name: &'static str, ty: &'static str, about: About, cell: CellFn) -> TableColumn {
    TableColumn { name, ty, format: "", about, priority: 0, cell }
}

/// A column that only `-o wide` shows.
pub(crate) const fn wide(name: &'static str, ty: &'static str, about: About, cell: CellFn) -> TableColumn {
    TableColumn { name, ty, format: "", about, priority: 1, cell }
}

/// What a column means, in words.
pub(crate) const fn words(text: &'static str) -> About {
    About::Words(text)
}

/// What a column means: what a field means.
pub(crate) const fn field(ty: &'static str, name: &'static str) -> About {
    About::Field(ty, name)
}

/// The columns that show the containers of a template.
pub(crate) const fn containers(cell: CellFn) -> TableColumn {
    wide("Containers", "string", words("Names of each container in the template."), cell)
}

/// The columns that show the images of a template.
pub(crate) const fn images(cell: CellFn) -> TableColumn {
    wide("Images", "string", words("Images referenced by each container in the template."), cell)
}

// === impl TableColumn ===

impl TableColumn {
    /// The same column with the format of names.
    pub(crate) const fn formatted(mut self, format: &'static str) -> Self {
        self.format = format;
        self
    }

    /// The column as it is published.
    pub fn published(&self) -> Column {
        let (description, doc) = match self.about {
            About::Words(text) => (text.to_owned(), None),
            About::Field(ty, field) => (String::new(), Some((crate::facts::full_name(ty), field.to_owned()))),
        };
        Column {
            name: self.name.to_owned(),
            ty: self.ty.to_owned(),
            format: self.format.to_owned(),
            description,
            doc,
            priority: self.priority,
        }
    }

    /// The cell of an object.
    pub fn cell(&self, obj: &Value, now: Timestamp) -> Value {
        (self.cell)(obj, now)
    }
}
