"""What a server's schema takes, its form for OpenAI and Anthropic takes, too: random schemas, random values. (Gemini has no
word for a value of any type, so that its form is a guess where a server names none.)"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import mcprt
from conftest import SERVERS
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing.exceptions import Unresolvable

Json = dict[str, Any]
NAMES = ["a", "b", "c"]


class Random(random.Random):
    def value(self, depth: int = 3) -> Any:
        kind = self.randrange(7 if depth else 5)
        if kind == 5:
            return [self.value(depth - 1) for _ in range(self.randrange(3))]
        if kind == 6:
            return self.an_object(depth - 1)
        return self.choice([None, True, self.randrange(4), self.choice([0.5, 2.0]), self.choice(["", "x", "xyz"])])

    def an_object(self, depth: int) -> Json:
        return {name: self.value(depth) for name in self.sample(NAMES, self.randrange(4))}

    def schemas(self, depth: int) -> list[Any]:
        return [self.schema(depth) for _ in range(self.randrange(1, 4))]

    def schema(self, depth: int = 4) -> Any:
        if self.random() < 0.05:
            return self.choice([True, False])
        if depth == 0 or self.random() < 0.15:
            return self.choice([{}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B", "type": "object"}, {"type": "string"}])
        made: Json = {}
        for _ in range(self.randrange(1, 4)):
            made.update(self.keyword(depth - 1))
        return made

    def keyword(self, depth: int) -> Json:
        types = ["string", "number", "integer", "boolean", "object", "array", "null"]
        makers: list[Any] = [
            lambda: {"type": self.choice(types)},
            lambda: {"type": self.sample(types, 2)},
            lambda: {"type": "object", "properties": {name: self.schema(depth) for name in self.sample(NAMES, 2)}},
            lambda: {"properties": {self.choice(NAMES): self.schema(depth)}, "additionalProperties": self.schema(depth)},
            lambda: {"required": self.sample(NAMES, self.randrange(3))},
            lambda: {"type": "array", "items": self.schema(depth)},
            lambda: {"prefixItems": self.schemas(depth), "items": self.schema(depth)},
            lambda: {self.choice(["anyOf", "oneOf", "allOf"]): self.schemas(depth)},
            lambda: {self.choice(["anyOf", "oneOf"]): [{"required": [name]} for name in self.sample(NAMES, 2)]},
            lambda: {"not": self.schema(depth)},
            lambda: {"if": self.schema(depth), "then": self.schema(depth), "else": self.schema(depth)},
            lambda: {"contains": self.schema(depth), "maxContains": self.randrange(1, 3)},
            lambda: {"unevaluatedProperties": self.choice([False, self.schema(depth)])},
            lambda: {"enum": [self.value(1) for _ in range(self.randrange(1, 4))]},
            lambda: {"const": self.value(1)},
            lambda: {"minimum": self.randrange(3), "exclusiveMaximum": self.randrange(1, 5)},
            lambda: {"minLength": self.randrange(3), "maxItems": self.randrange(1, 4), "maxProperties": self.randrange(1, 4)},
            lambda: {"patternProperties": {"^a": self.schema(depth)}},
            lambda: {"propertyNames": {"minLength": 1}, "dependentRequired": {"a": ["b"]}},
            lambda: {"description": "d", "default": self.value(1), "title": "t"},
            lambda: {"$ref": self.choice(["#/$defs/A", "#/$defs/B", "#", "#/properties/a"])},
        ]
        made: Json = self.choice(makers)()
        return made

    def root(self) -> Json:
        made: Json = self.schema()
        if not isinstance(made, dict):
            made = {}
        if self.random() < 0.6:
            made["type"] = "object"
        return {**made, "$defs": {"A": self.schema(3), "B": self.schema(3)}}


def takes(validator: Draft202012Validator, value: Any) -> bool | None:
    """None where nobody can say: a $ref that leads nowhere, or to itself."""
    try:
        return bool(validator.is_valid(value))
    except (Unresolvable, RecursionError):
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a RecursionError becomes below the validator
            raise
        return None


def test_nothing_is_refused_that_the_server_takes(options: dict[str, Any], tmp_path: Path) -> None:
    rng = Random(7)
    schemas = {f"t{i}": rng.root() for i in range(400)}
    file = tmp_path / "schemas.json"
    file.write_text(json.dumps(schemas))
    server: Json = SERVERS["s"]
    options["servers"] = {"s": {**server, "args": [*server["args"], str(file)]}}
    taken = 0
    with mcprt.Runtime(**options) as rt:
        rt.connect()
        formatted = {
            "openai": {t["function"]["name"]: t["function"]["parameters"] for t in rt.tools("openai")},
            "anthropic": {t["name"]: t["input_schema"] for t in rt.tools("anthropic")},
        }
        for name, schema in schemas.items():
            original = Draft202012Validator(schema)
            values = [value for value in (rng.an_object(2) for _ in range(60)) if takes(original, value)]
            for format, made in formatted.items():
                form = made[f"mcp_s_{name}"]
                try:
                    Draft202012Validator.check_schema(form)
                except SchemaError as error:
                    raise AssertionError(f"{format} of {json.dumps(schema)}: {json.dumps(form)}") from error
                validator = Draft202012Validator(form)
                wrapped = list(form.get("properties", {})) == ["input"]
                for value in values:
                    taken += 1
                    written = {"input": value} if wrapped else value
                    assert takes(validator, written) is not False, f"{format}: {json.dumps(schema)} takes {value}, {json.dumps(form)} does not"
    assert taken > 5000
