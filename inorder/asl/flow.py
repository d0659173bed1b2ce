"""How does data flow through a definition? A question about it says only what it knows of data.

https://docs.aws.amazon.com/step-functions/latest/dg/concepts-input-output-filtering.html
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import reduce
from typing import Any, Generic, TypeVar

from inorder.asl.definition import Json

Data = TypeVar("Data")


class Flow(ABC, Generic[Data]):
    """What is known of the data of each state, in terms of a question.

    `unknown` is a value of which nothing is known.
    """

    unknown: Data

    def __init__(self, definition: Json) -> None:
        self.start: str = definition["StartAt"]
        self.states: Json = definition["States"]

    @abstractmethod
    def at(self, data: Data, path: str | None) -> Data:
        """Tell what is known of the value at a path, which is there; None: an empty object."""

    @abstractmethod
    def value(self, expression: str, data: Data) -> Data:
        """Tell what is known of an expression's value."""

    @abstractmethod
    def literal(self, value: Any) -> Data:
        """Tell what is known of a text, a number or another value that has no fields."""

    @abstractmethod
    def fields(self, made: dict[str, Data]) -> Data:
        """Put an object together, or a list, whose fields have numbers."""

    @abstractmethod
    def placed(self, data: Data, path: str, value: Data) -> Data:
        """Tell what is known of data after a value was put at a path."""

    @abstractmethod
    def result(self, state: Json) -> Data:
        """Tell what is known of the result of a Task."""

    def judge(self, _name: str, _condition: Json, data: Data) -> tuple[Data | None, Data | None]:
        """Tell what is known if a comparison of a state holds, and if not; None: it cannot be."""
        return data, data

    def join(self, one: Data, _other: Data) -> Data:
        """Tell what is known of data that may come in two ways."""
        return one

    def inputs(self, first: Data) -> dict[str, Data]:
        """Tell what is known of each state's input, whichever way leads there."""
        found = {self.start: first}
        waiting = [self.start]
        while waiting:
            name = waiting.pop()
            for target, data in self.following(name, found[name]):
                joined = self.join(found[target], data) if target in found else data
                if target not in found or joined != found[target]:
                    found[target] = joined
                    waiting.append(target)
        return found

    def following(self, name: str, data: Data) -> Iterator[tuple[str, Data]]:
        """List the states that may follow one, each with its input."""
        state = self.states[name]
        if state["Type"] == "Choice":
            yield from self._chosen(name, state, data)
        elif "Next" in state:
            yield state["Next"], self.output(state, data)
        for catcher in state.get("Catch", []):
            fault = self.fields({"Error": self.unknown, "Cause": self.unknown})
            yield catcher["Next"], self._put(data, catcher.get("ResultPath", "$"), fault)

    def output(self, state: Json, data: Data) -> Data:
        """Tell what is known of the output of a state that is not a Choice."""
        result = self.at(data, state.get("InputPath", "$"))
        if state["Type"] in {"Pass", "Task"}:
            template = state.get("Result", state.get("Parameters"))
            if state["Type"] == "Task":
                result, template = self.result(state), state.get("ResultSelector")
            if template is not None:
                result = self.shaped(template, result)
            result = self._put(data, state.get("ResultPath", "$"), result)
        return self.at(result, state.get("OutputPath", "$"))

    def shaped(self, template: Any, data: Data) -> Data:
        """Tell what is known of what a payload template makes."""
        if isinstance(template, list):
            template = {str(index): each for index, each in enumerate(template)}
        if not isinstance(template, dict):
            return self.literal(template)
        made = {}
        for key, value in template.items():
            name = key.removesuffix(".$")
            shape = self.shaped if key == name else self.value
            made[name] = shape(value, data)
        return self.fields(made)

    def _chosen(self, name: str, state: Json, data: Data) -> Iterator[tuple[str, Data]]:
        rest: Data | None = self.at(data, state.get("InputPath", "$"))
        ways: list[tuple[str, Data | None]] = []
        for rule in state["Choices"]:
            if rest is not None:
                holds, rest = self._judged(name, rule, rest)
                ways.append((rule["Next"], holds))
        if "Default" in state:
            ways.append((state["Default"], rest))
        for target, known in ways:
            if known is not None:
                yield target, self.at(known, state.get("OutputPath", "$"))

    def _judged(self, name: str, rule: Json, data: Data) -> tuple[Data | None, Data | None]:
        """Tell what is known if a rule of a Choice holds, and if it does not."""
        if "Not" in rule:
            holds, fails = self._judged(name, rule["Not"], data)
            return fails, holds
        if "And" not in rule and "Or" not in rule:
            return self.judge(name, rule, data)
        is_and = "And" in rule
        ended = []  # what is known where a part has decided
        rest: Data | None = data
        for part in rule["And" if is_and else "Or"]:
            if rest is not None:
                holds, fails = self._judged(name, part, rest)
                rest, decided = (holds, fails) if is_and else (fails, holds)
                ended += [] if decided is None else [decided]
        either = reduce(self.join, ended) if ended else None
        return (rest, either) if is_and else (either, rest)

    def _put(self, data: Data, path: str | None, value: Data) -> Data:
        return data if path is None else self.placed(data, path, value)
