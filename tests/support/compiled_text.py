"""What the text of a compiled program says of its loops."""

import re


def computations(text):
    """The text of each computation by name, and the name of the entry."""
    found, entry, name = {}, None, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%([\w.\-]+) \(.*\{$", line)
        if head:
            name = head[2]
            entry = name if head[1] else entry
            found[name] = []
        elif name:
            found[name].append(line)
    return found, entry


def copies_in_loops(text, rows):
    """Copies of at least `rows` rows in a loop's body, or in what it calls."""
    found, _ = computations(text)
    waiting = re.findall(r"body=%([\w.\-]+)", text)
    inside = set()
    while waiting:
        name = waiting.pop()
        if name not in inside:
            inside.add(name)
            called = r"(?:calls|to_apply|body|condition)=%([\w.\-]+)"
            waiting += re.findall(called, "\n".join(found[name]))
    copy = re.compile(r"= \w+\[(\d+)[,\d]*\]\S* copy\(")
    lines = (line for name in inside for line in found[name])
    return [line for line in lines if (m := copy.search(line)) and int(m[1]) >= rows]


def is_machine_code(text):
    """Whether every loop is inside a call of a compiled kernel, a "small call"."""
    found, entry = computations(text)
    return "xla_cpu_small_call" in text and not any(
        " while(" in line for line in found[entry]
    )
