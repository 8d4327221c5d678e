"""Text ↔ token ids, and the model's chat template: what `tokenizer_build` saved when the model was added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from orchestrator.errors import ModelError


class ChatTokenizer:
    """A saved tokenizer. `folder` holds tokenizer.json (format of the `tokenizers` library) and chat.json."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._chat: dict[str, Any] = json.loads((folder / "chat.json").read_text())

    @property
    def size(self) -> int:
        """Ids are 0 .. size-1."""
        return int(self._tokenizer.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; special tokens in it are taken as such, no BOS is added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids`, special tokens included; bytes that are not yet UTF-8 show as U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Ids of `messages` ({role, content} each) in the model's chat template, ready for the assistant's answer.

        Raises ModelError when the model has no template, or the template refuses the messages.
        """
        return self.encode(self.render_chat(messages))

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        template = self._chat["template"]
        if template is None:
            raise ModelError("this model has no chat template", "Give plain text instead of messages.")
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals.update(raise_exception=_refuse, strftime_now=lambda form: datetime.now().strftime(form))
        try:
            return environment.from_string(template).render(
                messages=list(messages),
                add_generation_prompt=True,
                bos_token=self._chat["bos"],
                eos_token=self._chat["eos"],
            )
        except TemplateError as error:
            raise ModelError(f"the chat template refused the messages: {error}", "Check roles and contents.") from error


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
