"""Parts of pages: tables, style sheet, charts, and the description of the machine."""
