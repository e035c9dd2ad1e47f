// Calls the gateway at argv[2] with Node's SDKs. It is linked into the folder of the packages.
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import { ApiError, GoogleGenAI } from '@google/genai';
import { BedrockRuntimeClient, BedrockRuntimeServiceException, ConverseCommand, ConverseStreamCommand } from '@aws-sdk/client-bedrock-runtime';

const base = process.argv[2];
const usage = { Input: 700, CacheRead: 90, Output: 50 };

// check makes a call. The provider must have had so many requests, and settlements be its bill.
async function check(name, call, calls, answers = [usage], error = null, status = null) {
  await fetch(base + '/_next', { method: 'POST', body: JSON.stringify(answers) });
  let told = null;
  try { await call(); } catch (e) { told = e; }
  const report = await (await fetch(base + '/_check')).json();
  const fail = (why) => { console.error(`FAIL ${name}: ${why}`); process.exit(1); };
  if (error ? !error.some((type) => told instanceof type) : told) fail(`${told?.constructor?.name}: ${told?.message}`);
  if (status && told.status && told.status !== status) fail(`status ${told.status}, not ${status}`);
  if (report.calls !== calls || report.wrong) fail(`${JSON.stringify(report)}, ${calls} calls expected`);
  console.log('  ok', name);
}

async function drain(stream) { for await (const _ of stream); }

// forms are all forms of calls: name, call, typed error of a denial.
function forms(who) {
  const defaultHeaders = { 'X-Who': who };
  const o = new OpenAI({ baseURL: base + '/v1', apiKey: 'k', defaultHeaders });
  const a = new Anthropic({ baseURL: base, apiKey: 'k', defaultHeaders });
  const g = new GoogleGenAI({ apiKey: 'k', httpOptions: { baseUrl: base, headers: defaultHeaders } });
  const b = new BedrockRuntimeClient({ region: 'us-east-1', endpoint: base, credentials: { accessKeyId: 'local', secretAccessKey: 'local' } });
  b.middlewareStack.add((next) => (args) => { args.request.headers['x-who'] = who; return next(args); }, { step: 'build' });
  const messages = [{ role: 'user', content: 'hi' }];
  const chat = { model: 'gpt', max_tokens: 100, messages };
  const message = { model: 'claude', max_tokens: 100, messages };
  const response = { model: 'gpt', input: 'hi', max_output_tokens: 100 };
  const gemini = { model: 'gemini', contents: 'hi', config: { maxOutputTokens: 100 } };
  const converse = { modelId: 'anthropic.bedrock', messages: [{ role: 'user', content: [{ text: 'hi' }] }], inferenceConfig: { maxTokens: 100 } };
  return [
    ['openai chat', () => o.chat.completions.create(chat), OpenAI.RateLimitError],
    ['openai chat, streamed', async () => drain(await o.chat.completions.create({ ...chat, stream: true })), OpenAI.RateLimitError],
    ['openai responses', () => o.responses.create(response), OpenAI.RateLimitError],
    ['openai responses, streamed', async () => drain(await o.responses.create({ ...response, stream: true })), OpenAI.RateLimitError],
    ['@anthropic-ai/sdk', () => a.messages.create(message), Anthropic.RateLimitError],
    ['@anthropic-ai/sdk, streamed', async () => drain(await a.messages.create({ ...message, stream: true })), Anthropic.RateLimitError],
    ['@google/genai', () => g.models.generateContent(gemini), ApiError],
    ['@google/genai, streamed', async () => drain(await g.models.generateContentStream(gemini)), ApiError],
    ['client-bedrock-runtime', () => b.send(new ConverseCommand(converse)), BedrockRuntimeServiceException],
    ['client-bedrock-runtime, streamed', async () => drain((await b.send(new ConverseStreamCommand(converse))).stream), BedrockRuntimeServiceException],
  ];
}

for (const [name, call] of forms('rich')) await check(name, call, 1);
for (const [name, call, error] of forms('broke')) await check(name + ': denied', call, 0, [], [error], 429);
for (const [name, call] of forms('rich').slice(0, 6)) {
  await check(name + ': an outage is told', call, 3, Array(3).fill({ Status: 500 }), [OpenAI.InternalServerError, Anthropic.InternalServerError]);
  await check(name + ': a pause that passes is retried', call, 2, [{ Status: 429, RetryAfter: 1_000_000_000 }, usage]);
}
