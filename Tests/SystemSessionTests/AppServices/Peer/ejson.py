"""MongoDB Extended JSON, as far as function arguments, login documents and results have it."""

INT32 = range(-(1 << 31), 1 << 31)


def canonical(value):
    """A value as core writes it: each number names its type."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return {"$numberInt" if value in INT32 else "$numberLong": str(value)}
    if isinstance(value, float):
        return {"$numberDouble": repr(value)}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return {name: canonical(item) for name, item in value.items()}


def plain(value):
    """A value that came: numbers as Python's, all else as it stands."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, text), = value.items()
        if name in ("$numberInt", "$numberLong"):
            return int(text)
        if name == "$numberDouble":
            return float(text)
    return {name: plain(item) for name, item in value.items()}


def bare_numbers(value, place="the result"):
    """Places of numbers that do not name their type, which canonical Extended JSON does not have."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [place]
    if isinstance(value, list):
        return [found for n, item in enumerate(value) for found in bare_numbers(item, f"{place}[{n}]")]
    if isinstance(value, dict):
        return [found for name, item in value.items() for found in bare_numbers(item, f"{place}.{name}")]
    return []
