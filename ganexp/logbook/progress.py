"""A progress bar on the terminal."""

from tqdm import tqdm

from ganexp.logbook.book import Book, Row, State


class ProgressBook(Book):
    """Shows losses and images per second beside a bar; silent where stderr is not a terminal."""

    def __init__(self, iterations: int) -> None:
        self._bar = tqdm(total=iterations, unit="it", disable=None, dynamic_ncols=True)

    def tick(self) -> None:
        self._bar.update()

    def write(self, row: Row) -> None:
        if "loss/d" in row:
            shown = {"D": row["loss/d"], "G": row["loss/g"]}
            if "began/k_t" in row:
                shown["k_t"] = row["began/k_t"]
            text = "  ".join(f"{key} {value:.3f}" for key, value in shown.items())
            self._bar.set_postfix_str(f"{text}  {row['speed/images_per_s']:,.0f} images/s")

    def rewind(self, iteration: int) -> None:
        self._bar.n = iteration
        self._bar.refresh()

    def close(self, state: State) -> None:
        self._bar.close()
