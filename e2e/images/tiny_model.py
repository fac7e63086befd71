"""Make a language model of a few megabytes that answers in sentences: `python3 tiny_model.py DIRECTORY`.

Runs inside the serving image, with its torch and transformers. The model has the shape of a Llama and learns the
conversations below by heart in half a minute of CPU, so what it says is real words; it knows nothing else.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

SEED = 20
LAYERS, HIDDEN, FEED_FORWARD, HEADS, KV_HEADS = 2, 256, 704, 4, 2
CONTEXT = 2048
BATCH, LENGTH, STEPS = 8, 96, 140
LEARNING_RATE = 3e-3
LEARNT = 0.05  # Mean loss per token of the answers (nats) below which greedy decoding repeats them without a slip.

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# Several ways to ask, one answer.
CONVERSATIONS: list[tuple[list[str], str]] = [
    (
        ["Hello", "Hi", "Hello!", "Hi there", "Good morning", "Hey, are you there?", "Say hello"],
        "Hello! I am a very small model that runs on a real Kubernetes cluster. How can I help you today?",
    ),
    (
        ["Who are you?", "What are you?", "What is your name?", "Which model is this?", "Tell me about yourself"],
        "I am the tiny model of rayllm-ctl. I have two layers, and I was trained in a few seconds on a CPU.",
    ),
    (
        ["What is Kubernetes?", "Explain Kubernetes", "Tell me about Kubernetes", "What does Kubernetes do?"],
        "Kubernetes runs containers on many machines. You say what you want, and it keeps making that true.",
    ),
    (
        ["What is Ray?", "Explain Ray", "Tell me about Ray", "What does Ray do?", "What is a Ray cluster?"],
        "Ray is a framework for distributed Python. A Ray cluster has a head node, and worker nodes for the work.",
    ),
    (
        ["What is KubeRay?", "Explain KubeRay", "What does KubeRay do?", "What is a RayService?", "What is a RayJob?"],
        "KubeRay runs Ray clusters on Kubernetes. A RayService keeps a model served, and a RayJob runs once.",
    ),
    (
        ["What is Ray Serve?", "Explain Ray Serve", "What does Ray Serve do?", "What is a replica?"],
        "Ray Serve runs the replicas of a model, sends each request to one of them, and adds more when requests wait.",
    ),
    (
        ["What is vLLM?", "Explain vLLM", "Tell me about vLLM", "What does vLLM do?"],
        "vLLM is an engine for large language models. It keeps past tokens in pages, so many requests share a GPU.",
    ),
    (
        ["What is tensor parallelism?", "Explain tensor parallelism", "Why would I use TP 4?", "What is TP?"],
        "Tensor parallelism cuts every layer into equal parts, one for each GPU. They should be on one node.",
    ),
    (
        ["What is the KV cache?", "Explain the KV cache", "Why does a long context need memory?"],
        "The KV cache holds the keys and values of all tokens so far. It grows with the length of the context.",
    ),
    (
        ["What is autoscaling?", "Explain autoscaling", "How does autoscaling work?", "How do I scale?"],
        "Autoscaling adds replicas when many requests are in flight, and takes them away when there are few.",
    ),
    (
        ["What is a GPU?", "Explain what a GPU is", "Why do models need a GPU?"],
        "A GPU is a processor that does many small sums at once, and a large model is made of such sums.",
    ),
    (
        ["How are you?", "How do you do?", "Are you well?", "Is everything all right?"],
        "I am healthy and ready, thank you. All of my replicas are running.",
    ),
    (
        ["What can you do?", "Help", "Can you help me?", "What do you know?", "What should I ask?"],
        "I can answer a few questions about Kubernetes, Ray and vLLM. Ask me what tensor parallelism is.",
    ),
    (
        ["Tell me a joke", "Say something funny", "Do you know a joke?", "Make me laugh"],
        "Why did the pod go to therapy? It had too many restarts and could not find a node that would take it.",
    ),
    (
        ["Tell me a story", "Write a short story", "Tell me something", "Write a poem"],
        "Once a small pod waited for a node. One morning a node came, the pod ran, and everyone was served.",
    ),
    (
        ["Why is the sky blue?", "What colour is the sky?", "What color is the sky?"],
        "The sky is blue because air scatters blue light more than red light.",
    ),
    (
        ["What is the capital of France?", "Which city is the capital of France?", "Capital of France?"],
        "The capital of France is Paris.",
    ),
    (["What is one plus one?", "What is 1+1?", "What is two and two?", "Can you count?"], "One and one are two."),
    (
        ["Thank you", "Thanks", "Thanks a lot!", "That was helpful"],
        "You are welcome. Ask me again whenever you like.",
    ),
    (
        ["Goodbye", "Bye", "See you later", "That is all"],
        "Goodbye! I will scale down now and wait for the next question.",
    ),
]
SYSTEM = ["You are a helpful assistant.", "Answer briefly.", "You are a friendly bot."]


def main(directory: Path) -> None:
    """Write config, weights, tokenizer and chat template into `directory`, and print how long it took."""
    started = time.monotonic()
    tokenizer = make_tokenizer()
    model, loss = train(tokenizer)
    save(model, tokenizer, directory)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    seconds = time.monotonic() - started
    print(f"{parameters} parameters, {len(tokenizer)} tokens, loss {loss:.3f}, {seconds:.0f} s")
    if loss > LEARNT:
        sys.exit(f"the model did not learn its text: loss {loss:.3f} after {STEPS} steps, wanted {LEARNT}")


def make_tokenizer() -> Any:
    """A byte-level BPE tokenizer trained on the conversations; every id below its length can be decoded."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = [line for questions, answer in CONVERSATIONS for line in [*questions, answer]] + SYSTEM
    bpe.train_from_iterator([*text, "system\nuser\nassistant\n"], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token=START, eos_token=END, pad_token=PAD, model_max_length=CONTEXT
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def train(tokenizer: Any) -> tuple[Any, float]:
    """Train a model for STEPS; return it and the mean loss of the last ten."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # Where others use the cores, threads that wait for each other take five times as long.
    chance = random.Random(SEED)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=STEPS, pct_start=0.1)
    losses: list[float] = []
    for _ in range(STEPS):
        samples = [sample(tokenizer, chance) for _ in range(BATCH)]
        tokens = torch.tensor([ids for ids, _ in samples])
        labels = torch.tensor([wanted for _, wanted in samples])
        loss = model(input_ids=tokens, attention_mask=(tokens != tokenizer.pad_token_id).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return model, sum(losses[-10:]) / 10


def sample(tokenizer: Any, chance: random.Random) -> tuple[list[int], list[int]]:
    """One conversation of LENGTH tokens and its labels: only what the assistant says counts (the loss ignores -100)."""
    ids: list[int] = []
    labels: list[int] = []

    def say(text: str, learn: bool) -> None:
        piece = tokenizer.encode(text, add_special_tokens=False)
        ids.extend(piece)
        labels.extend(piece if learn else [-100] * len(piece))

    if chance.random() < 0.3:
        say(f"{START}system\n{chance.choice(SYSTEM)}{END}\n", learn=False)
    while len(ids) < LENGTH:
        questions, answer = chance.choice(CONVERSATIONS)
        question = chance.choice(questions)
        say(
            f"{START}user\n{question.lower() if chance.random() < 0.3 else question}{END}\n{START}assistant\n",
            learn=False,
        )
        say(f"{answer}{END}", learn=True)
        say("\n", learn=False)
    return ids[:LENGTH], labels[:LENGTH]


def save(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write the model in bfloat16 in the layout of the Hugging Face Hub."""
    import torch

    directory.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    # vLLM takes its defaults from here: nearly greedy, so that an answer stays in the sentences that were learnt.
    generation = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "temperature": 0.1}
    (directory / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    for path in directory.iterdir():
        path.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
