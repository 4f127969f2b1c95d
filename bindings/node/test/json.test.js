import assert from 'node:assert/strict'
import { test } from 'node:test'
import { elementSpans, memberSpan } from '../lib/json.js'

/** @param {string} text @param {string} name */
function member(text, name) {
  const bytes = Buffer.from(text)
  const span = memberSpan(bytes, name)
  return span && bytes.toString('utf8', span.start, span.end)
}

test('a member is cut out byte for byte', () => {
  assert.equal(member('{"result":{"n":9007199254740993, "x" : [1,2]}}', 'result'), '{"n":9007199254740993, "x" : [1,2]}')
  assert.equal(member(' {\n "a" : 1.50e+2 ,"result"\t:\t null } ', 'a'), '1.50e+2')
  assert.equal(member(' {\n "a" : 1.50e+2 ,"result"\t:\t null } ', 'result'), 'null')
  assert.equal(member('{"a":"}","result":"é"}', 'result'), '"é"')
  assert.equal(member('{"result":{"result":1},"b":2}', 'b'), '2')
  assert.equal(member('{"result":-0}', 'result'), '-0')
})

test('quotes and backslashes inside strings do not end them', () => {
  assert.equal(member(String.raw`{"a":"\\","result":"\\\"}"}`, 'result'), String.raw`"\\\"}"`)
  assert.equal(member(String.raw`{"a\"result":1,"result":[{"q":"]\\"}]}`, 'result'), String.raw`[{"q":"]\\"}]`)
})

test('an escaped name is the name it spells, and the last of two counts', () => {
  assert.equal(member(String.raw`{"r\u0065sult":7}`, 'result'), '7')
  assert.equal(member('{"result":1,"result":2}', 'result'), '2')
})

test('what is not there is undefined', () => {
  assert.equal(member('{}', 'result'), undefined)
  assert.equal(member('[]', 'result'), undefined)
  assert.equal(member('{"x":{"result":1}}', 'result'), undefined)
})

test('the elements of an array', () => {
  const text = Buffer.from('{"tools":[ {"a":[1,2]} ,"x,y", 3 ,[] ]}')
  const span = memberSpan(text, 'tools')
  assert.deepEqual(
    elementSpans(text, span).map(({ start, end }) => text.toString('utf8', start, end)),
    ['{"a":[1,2]}', '"x,y"', '3', '[]'],
  )
  const empty = Buffer.from('{"tools":[ ]}')
  assert.deepEqual(elementSpans(empty, memberSpan(empty, 'tools')), [])
  const other = Buffer.from('{"tools":"no"}')
  assert.deepEqual(elementSpans(other, memberSpan(other, 'tools')), [])
})

test('text that ends too early is an error, wherever it ends', () => {
  const whole = '{"a":"x\\"y","tools":[1,{"b":null},"z"]}'
  for (let length = 1; length < whole.length; length++) {
    const text = Buffer.from(whole.slice(0, length))
    assert.throws(() => memberSpan(text, 'tools'), SyntaxError, whole.slice(0, length))
  }
})

test('cut values agree with JSON.parse on random documents', () => {
  let seed = 42
  const random = (/** @type {number} */ n) => (seed = (seed * 48271) % 2147483647) % n
  /** @returns {any} */
  const value = (/** @type {number} */ depth) => {
    switch (random(depth > 3 ? 4 : 6)) {
      case 0: return random(1e6) - 5e5
      case 1: return [null, true, false][random(3)]
      case 2: return '"\\{[,:]}é\u0000😀'.slice(random(6))
      case 3: return random(100) / 7
      case 4: return Array.from({ length: random(4) }, () => value(depth + 1))
      default: return Object.fromEntries(Array.from({ length: random(4) }, (_, i) => [`k"${i}\\`, value(depth + 1)]))
    }
  }
  for (let i = 0; i < 500; i++) {
    const document = { before: value(0), result: value(0), list: [value(0), value(0)] }
    const text = Buffer.from(JSON.stringify(document, null, i % 3))
    const span = memberSpan(text, 'result')
    assert.deepEqual(JSON.parse(text.toString('utf8', span.start, span.end)), document.result)
    const parts = elementSpans(text, memberSpan(text, 'list')).map(({ start, end }) => JSON.parse(text.toString('utf8', start, end)))
    assert.deepEqual(parts, document.list)
  }
})
