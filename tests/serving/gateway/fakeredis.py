"""The commands of Redis that the scripts use, with a clock of its own, and Lua 5.1 to run them, as Redis does."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import lupa.lua51

from rayllm_ctl.serving.gateway.limits.redis_scripts import CHARGE, WITHDRAW
from rayllm_ctl.serving.gateway.limits.redis_store import RedisStore


class FakeRedis:
    """Lists that expire."""

    def __init__(self) -> None:
        self.microseconds = 1_800_000_000_000_000
        self.lists: dict[str, list[str]] = {}
        self.expiry: dict[str, float] = {}
        lua = lupa.lua51.LuaRuntime(unpack_returned_tuples=True)
        lua.globals().redis = lua.table(call=self.call)
        self._lua = lua
        self._scripts = {
            script: lua.execute(f"return function(KEYS, ARGV) {script} end") for script in (CHARGE, WITHDRAW)
        }

    def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | int]) -> str | None:
        texts = [str(argument) for argument in arguments]
        reply = self._scripts[script](self._lua.table_from(keys), self._lua.table_from(texts))
        assert all(key in self.expiry for key in self.lists), "every window expires"
        return None if reply is None else str(reply)

    def call(self, command: str, *arguments: Any) -> Any:
        if command == "TIME":
            seconds, rest = divmod(self.microseconds, 1_000_000)
            return self._lua.table_from([str(seconds), str(rest)])
        key = arguments[0]
        if self.expiry.get(key, self.microseconds) < self.microseconds:
            self.lists.pop(key), self.expiry.pop(key)
        return getattr(self, command.lower())(key, *arguments[1:])

    def lindex(self, key: str, place: float) -> str | bool:
        items = self.lists.get(key, [])
        return items[int(place)] if -len(items) <= place < len(items) else False

    def lset(self, key: str, place: float, value: str) -> None:
        assert isinstance(value, str)
        self.lists[key][int(place)] = value

    def lpush(self, key: str, *values: str) -> None:
        assert all(isinstance(value, str) for value in values)
        self.lists[key] = [*reversed(values), *self.lists.get(key, [])]

    def lpop(self, key: str) -> str:
        return self.lists[key].pop(0)

    def rpop(self, key: str) -> str:
        return self.lists[key].pop()

    def lrem(self, key: str, count: float, value: str) -> int:
        assert count == 1
        if value not in self.lists.get(key, []):
            return 0
        self.lists[key].remove(value)
        return 1

    def delete(self, key: str) -> None:
        self.lists.pop(key, None)
        self.expiry.pop(key, None)

    def pexpire(self, key: str, milliseconds: float) -> None:
        assert milliseconds == int(milliseconds)
        self.expiry[key] = self.microseconds + milliseconds * 1000

    def __getattr__(self, name: str) -> Any:
        if name == "del":
            return self.delete
        raise AttributeError(name)


class ScriptStore(RedisStore):
    """A RedisStore whose scripts run here."""

    def __init__(self, redis: FakeRedis) -> None:
        self._prefix = "test"
        self.redis = redis

    def _call(self, script: str, charges: Any, arguments: tuple[str | int, ...]) -> asyncio.Future[bytes]:
        reply = asyncio.get_running_loop().create_future()
        text = self.redis.run(script, [self._key(charge) for charge in charges], arguments)
        reply.set_result((text or "").encode())
        return reply


class FakeServer:
    """A FakeRedis on a port of this machine, which can stop to answer."""

    def __init__(self, password: str | None = None) -> None:
        self.redis = FakeRedis()
        self.password = password
        self.known: dict[str, str] = {}
        self.silent = False
        self.broken = ""
        self.batches: list[int] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self.known.clear()
        self.redis.lists.clear()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        authenticated = self.password is None
        try:
            while data := await reader.read(1 << 20):
                commands = self._parse(data)
                self.batches.append(sum(command[0] == "EVALSHA" for command in commands))
                for command in commands:
                    if command[0] == "AUTH":
                        authenticated = command[-1] == self.password
                    reply = self._answer(command) if authenticated else "-NOAUTH Authentication required."
                    if not self.silent:
                        writer.write(f"{reply}\r\n".encode())
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)

    def _answer(self, command: list[str]) -> str:
        match command:
            case ["SCRIPT", "LOAD", script]:
                digest = hashlib.sha1(script.encode()).hexdigest()
                self.known[digest] = script
                return f"${len(digest)}\r\n{digest}"
            case ["EVALSHA", digest, count, *rest]:
                if self.broken:
                    return f"-{self.broken}"
                if digest not in self.known:
                    return "-NOSCRIPT No matching script."
                reply = self.redis.run(self.known[digest], rest[: int(count)], rest[int(count) :])
                return "$-1" if reply is None else f"${len(reply)}\r\n{reply}"
        return "+OK"

    @staticmethod
    def _parse(data: bytes) -> list[list[str]]:
        """Commands, which a client on the same machine sends as a whole."""
        commands: list[list[str]] = []
        while data:
            count, data = data[1:].split(b"\r\n", 1)
            command = []
            for _ in range(int(count)):
                size, data = data[1:].split(b"\r\n", 1)
                command.append(data[: int(size)].decode())
                data = data[int(size) + 2 :]
            commands.append(command)
        return commands
