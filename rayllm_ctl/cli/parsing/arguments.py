"""The words of a command line before Click's parser reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click


def options_by_name(command: click.Command, ctx: click.Context) -> dict[str, click.Option]:
    """The options of a command by each of their names."""
    params = (param for param in command.get_params(ctx) if isinstance(param, click.Option))
    return {name: option for option in params for name in (*option.opts, *option.secondary_opts)}


def takes_value(option: click.Option) -> bool:
    """Whether a value follows the name of an option."""
    return not (option.is_flag or option.count)


def normalized(arguments: Sequence[str], options: Mapping[str, click.Option], ctx: click.Context) -> list[str]:
    """`arguments` with -o=json as -o json: kubectl takes both, Click the second.

    Raises BadOptionUsage if the value of an option is missing, at the end or where the next word is a flag, or if a
    flag that takes none has one.
    """
    found: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--" or not (ctx.allow_interspersed_args or word.startswith("-")):
            return [*found, word, *rest]
        option = options.get(word)
        if option is None:
            found += _split(word, options, ctx)
        elif takes_value(option):
            values, rest = rest[: option.nargs], rest[option.nargs :]
            next_flag = next((value for value in values if value in options), "")
            if next_flag or len(values) < option.nargs:
                raise _value_missing(word, option, next_flag, ctx)
            found += [word, *values]
        else:
            found.append(word)
    return found


_CLUSTER = ("-n", "--namespace", "--kubeconfig", "--context", "--as", "--as-group", "--request-timeout")


def moved_behind(arguments: Sequence[str], options: Mapping[str, click.Option]) -> list[str]:
    """`arguments` of a group with `options`, in which flags of the cluster stand behind the name of the command."""
    before, moved = list[str](), list[str]()
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name = word.partition("=")[0]
        if word in _CLUSTER and rest:
            moved += [word, rest.pop(0)]
        elif name in _CLUSTER or (word.startswith("-n") and "-n" not in options):
            moved.append(word)
        else:
            before.append(word)
            if word in options and takes_value(options[word]) and rest:
                before.append(rest.pop(0))
    return [*before, *rest[:1], *moved, *rest[1:]]


def _split(word: str, options: Mapping[str, click.Option], ctx: click.Context) -> list[str]:
    """-n=llm and -An=llm as two words; anything else unchanged.

    Raises BadOptionUsage for --offline=true and -A=true.
    """
    name, equals, _ = word.partition("=")
    if not equals:
        return [word]
    if word.startswith("--"):
        if name in options and not takes_value(options[name]):
            raise _value_given(name, options[name], ctx)
        return [word]
    for place, letter in enumerate(name[1:], 1):
        option = options.get(f"-{letter}")
        if option is None:
            break
        ends = place + 1 == len(name)
        if takes_value(option):
            return [name, word[place + 2 :]] if ends else [word]
        if ends:
            raise _value_given(f"-{letter}", option, ctx)
    return [word]


def choices(param: click.Parameter) -> str:
    """The values of a parameter in brackets, with a space before; empty if it has no list of them."""
    if not isinstance(param.type, click.Choice):
        return ""
    *others, last = map(str, param.type.choices)
    return f" ({', '.join(others)} or {last})" if others else f" ({last})"


def _value_missing(name: str, option: click.Option, next_flag: str, ctx: click.Context) -> click.BadOptionUsage:
    values = option.nargs
    needs = f"requires {'a value' if values == 1 else f'{values} values'}"
    needs += choices(option)
    followed = f", and is followed by the flag {next_flag}" if next_flag else ""
    return click.BadOptionUsage(name, f"{name} {needs}{followed}", ctx)


def _value_given(name: str, option: click.Option, ctx: click.Context) -> click.BadOptionUsage:
    """The error for a value of a flag without values, as pflag takes it: --offline=true."""
    names = [*option.opts, *option.secondary_opts] if option.secondary_opts else [name]
    return click.BadOptionUsage(name, f"{name} takes no value: write {' or '.join(names)}, or leave it out", ctx)
