package org.example.table;

import java.util.ArrayList;
import java.util.List;

/** A table as text; it doesn't wrap. */
public final class Table {
    private final List<String[]> rows = new ArrayList<>();
    private final String title;

    public Table(String title) {
        this.title = title;
    }

    public Table add(String... cells) {
        if (cells.length == 0) {
            throw new IllegalArgumentException("a row needs a cell\n");
        }
        rows.add(cells);
        return this;
    }

    private int[] widths() {
        int columns = 0;
        for (String[] row : rows) {
            columns = Math.max(columns, row.length);
        }
        int[] widths = new int[columns];
        for (String[] row : rows) {
            for (int i = 0; i < row.length; i++) {
                widths[i] = Math.max(widths[i], row[i].length());
            }
        }
        return widths;
    }

    @Override
    public String toString() {
        StringBuilder out = new StringBuilder(title).append("\n");
        int[] widths = widths();
        for (String[] row : rows) {
            for (int i = 0; i < row.length; i++) {
                out.append(i == 0 ? "| " : " | ");
                out.append(row[i]);
                for (int pad = row[i].length(); pad < widths[i]; pad++) {
                    out.append(' ');
                }
            }
            out.append(" |\n");
        }

        return out.toString();
    }
}
