"""The command ``drill``: tests the paging of a team and measures how long a page takes."""
