'use strict'
// The filter of the messages. Its state is in the address, so that a view can be kept.
const field = (id) => document.getElementById(id)
const fields = ['text', 'server', 'method', 'direction', 'failed'].map(field)
const rows = Array.from(document.querySelectorAll('#rows > tr'), (row) => ({ row, text: row.textContent.toLowerCase() }))

function read() {
  const state = new URLSearchParams(location.hash.slice(1))
  for (const f of fields) {
    if (f.type === 'checkbox') f.checked = state.get(f.id) === '1'
    else f.value = state.get(f.id) ?? ''
    if (f.tagName === 'SELECT' && f.selectedIndex < 0) f.value = ''
  }
}

function apply() {
  const [text, server, method, direction, failed] = fields
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean)
  let shown = 0
  for (const { row, text: content } of rows) {
    const pass = (!server.value || row.dataset.server === server.value) &&
      (!method.value || row.dataset.method === method.value) &&
      (!direction.value || row.dataset.direction === direction.value) &&
      (!failed.checked || row.classList.contains('bad')) &&
      words.every((word) => content.includes(word))
    row.hidden = !pass
    if (pass) shown++
  }
  field('count').value = shown === rows.length ? `${shown} messages` : `${shown} of ${rows.length} messages`
}

function changed() {
  const state = new URLSearchParams()
  for (const f of fields) {
    const value = f.type === 'checkbox' ? (f.checked ? '1' : '') : f.value
    if (value) state.set(f.id, value)
  }
  history.replaceState(null, '', state.size ? '#' + state : location.pathname + location.search)
  apply()
}

const form = field('filter')
form.hidden = rows.length === 0
form.addEventListener('input', changed)
form.addEventListener('submit', (event) => event.preventDefault())
form.addEventListener('reset', () => setTimeout(changed))
addEventListener('hashchange', () => { read(); apply() })
read()
apply()
