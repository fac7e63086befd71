"""A chat class with a Transformers model, over HTTP and gRPC."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
from google.protobuf.wrappers_pb2 import StringValue
from ray import serve
from starlette.requests import Request
from transformers import AutoModelForCausalLM, AutoTokenizer


@serve.deployment
class Chat:
    """Answers one message. The model comes from the arguments of the file."""

    def __init__(self, model: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(model)
        self._model = AutoModelForCausalLM.from_pretrained(model)

    def answer(self, message: str) -> str:
        prompt = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
        )
        inputs = self._tokenizer(prompt, return_tensors="pt")
        output = self._model.generate(**inputs, max_new_tokens=8, do_sample=False)
        return str(self._tokenizer.decode(output[0][inputs["input_ids"].shape[1] :], skip_special_tokens=True))

    async def __call__(self, request: Request) -> dict[str, str]:
        body = await request.json()
        return {"id": uuid.uuid4().hex, "answer": self.answer(body["message"])}

    async def Say(self, request: StringValue) -> StringValue:
        return StringValue(value=self.answer(request.value))


class ChatServicer:
    """The gRPC service e2e.Chat, as protoc would declare it."""

    def Say(self, request: StringValue, context: Any) -> StringValue:
        raise NotImplementedError


def add_ChatServicer_to_server(servicer: Any, server: Any) -> None:
    """Register the service. Ray Serve passes a servicer of its own, which hands requests to the application."""
    handlers = {
        "Say": grpc.unary_unary_rpc_method_handler(
            servicer.Say, request_deserializer=StringValue.FromString, response_serializer=StringValue.SerializeToString
        )
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("e2e.Chat", handlers),))


def build(args: dict[str, Any]) -> serve.Application:
    """An application builder."""
    return Chat.bind(args["model"])
