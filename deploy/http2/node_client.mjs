// A client of `clients_node.py`: node node_client.mjs URL CA|- TASK PATH…  Prints a line of JSON.
import { readFileSync } from "node:fs"
import { connect, constants } from "node:http2"

const [base, ca, task, ...paths] = process.argv.slice(2)
// Above maxSessionMemory (10 MB) of bodies that wait, Node itself resets streams with ENHANCE_YOUR_CALM when their response begins.
const session = connect(base, { maxSessionMemory: 100, ...(ca === "-" ? {} : { ca: readFileSync(ca) }) })
let goaways = 0
session.on("goaway", () => goaways++)

/// The whole response: status, length, sum of the bytes, content, trailers, interim statuses.
function exchange(headers, { body, trailers } = {}) {
    return new Promise((resolve, reject) => {
        const stream = session.request(headers, { endStream: body === undefined, waitForTrailers: trailers !== undefined })
        const seen = { status: null, interim: [], trailers: null }
        const parts = []
        stream.on("response", fields => { seen.status = fields[":status"] })
        stream.on("headers", fields => seen.interim.push(fields[":status"]))
        stream.on("trailers", fields => { seen.trailers = { ...fields } })
        stream.on("data", data => parts.push(data))
        stream.on("error", reject)
        stream.on("wantTrailers", () => stream.sendTrailers(trailers))
        stream.on("close", () => {
            seen.body = Buffer.concat(parts)
            seen.length = seen.body.length
            stream.rstCode ? reject(new Error(`reset ${stream.rstCode}`)) : resolve(seen)
        })
        if (body !== undefined) stream.end(body)
    })
}

/// A stream that is cancelled behind its first bytes: how it ends.
function cancelled(path) {
    return new Promise(resolve => {
        const stream = session.request({ ":path": path })
        stream.on("error", () => {})
        stream.once("data", () => stream.close(constants.NGHTTP2_CANCEL))
        stream.on("close", () => resolve(stream.rstCode))
    })
}

const content = Buffer.alloc(5 << 20, "0123456789abcdef")
const tasks = {
    async many() {
        const made = await Promise.all(Array.from({ length: 60 }, (_, n) => exchange({ ":path": `${paths[0]}?n=${n}` })))
        const different = name => [...new Set(made.map(each => each[name]))]
        return { statuses: different("status"), lengths: different("length"), count: made.length }
    },
    async upload() {
        const made = await Promise.all([0, 1, 2].map(() => exchange({ ":path": paths[0], ":method": "POST" }, { body: content })))
        return { statuses: made.map(each => each.status), equal: made.map(each => each.body.equals(content)) }
    },
    async trailers() {
        const made = await exchange(
            { ":path": paths[0], ":method": "POST", te: "trailers" }, { body: "12345", trailers: { "x-mine": "yes" } })
        return { status: made.status, body: made.body.toString(), trailers: made.trailers }
    },
    async cancel() {
        const codes = []
        for (let n = 0; n < 20; n++) codes.push(await cancelled(paths[0]))
        const after = await exchange({ ":path": paths[1] })
        return { codes: [...new Set(codes)], count: codes.length, status: after.status, body: after.body.toString() }
    },
    async plain() {
        const made = await Promise.all(paths.map(path => exchange({ ":path": path })))
        return made.map(each => ({ status: each.status, body: each.body.toString(), trailers: each.trailers, interim: each.interim }))
    },
}
session.on("error", error => { console.error(error); process.exit(1) })
const result = await tasks[task]()
console.log(JSON.stringify({ result, goaways, protocol: session.alpnProtocol ?? null }))
session.close()
