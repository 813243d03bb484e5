//! Tables as kubectl prints them: columns as wide as their widest cell, three spaces between, no lines.

/// Renders `rows` below `headers`. Line breaks in a cell become spaces, so that a row stays a line.
pub(crate) fn render_table<const N: usize>(headers: [&str; N], rows: &[[String; N]]) -> String {
    let mut lines = vec![headers.map(str::to_owned)];
    lines.extend_from_slice(rows);
    render_columns(&lines)
}

/// The same without headers.
pub(crate) fn render_columns<const N: usize>(rows: &[[String; N]]) -> String {
    let clean = |cell: &str| {
        let cell: String = cell.chars().map(|c| if c.is_control() { '\n' } else { c }).collect();
        // The indentation of a first cell stays.
        cell.split('\n').map(str::trim_end).collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<[String; N]> = rows.iter().map(|row| std::array::from_fn(|i| clean(&row[i]))).collect();
    let widths: [usize; N] =
        std::array::from_fn(|i| lines.iter().map(|line: &[String; N]| line[i].chars().count()).max().unwrap_or(0));
    let mut table = String::new();
    for line in &lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(widths) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 3));
        }
        table.push_str(text.trim_end());
        table.push('\n');
    }
    table
}
