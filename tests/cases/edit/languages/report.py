"""Reports of what was sold."""

import csv
import re
from dataclasses import dataclass


AMOUNT = re.compile(r"^(\d+)\.(\d{2})\s*€?$")


@dataclass
class Sale:
    item: str
    amount: int
    count: int = 1

    def total(self):
        return self.amount * self.count

    def line(self):
        if self.count == 1:
            return f"{self.item}\t{self.amount}\n"
        return f"{self.item} x{self.count}\t{self.total()}\n"


def parse(text):
    match = AMOUNT.match(text.strip())
    if match is None:
        raise ValueError("not an amount: %r" % text)
    euros, cents = match.groups()
    return int(euros) * 100 + int(cents)


def read(path):
    sales = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            try:
                amount = parse(row["amount"])
            except ValueError as error:
                print("skipped:", error)
                continue

            count = int(row.get("count") or 1)
            sales.append(Sale(row["item"], amount, count))
    return sales


def report(sales, out):
    sales = sorted(sales, key=lambda sale: sale.total(), reverse=True)
    out.write("item\tamount\n")
    for sale in sales:
        out.write(sale.line())

    total = sum(sale.total() for sale in sales)
    out.write("\n")
    out.write("total\t{}\n".format(total))


class Summary:
    """It's what's left when the details don't matter."""

    def __init__(self, sales):
        self.sales = sales

    def by_item(self):
        counts = {}
        for sale in self.sales:
            counts.setdefault(sale.item, 0)
            counts[sale.item] += sale.count
        return counts

    def best(self):
        counts = self.by_item()
        if not counts:
            return None

        return max(counts, key=counts.get)
