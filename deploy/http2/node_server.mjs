// An upstream of `clients_node.py`: node node_server.mjs plain, or secure CERTIFICATE KEY. Prints its port, then a line for each session
// and for each cancelled stream.
import { readFileSync } from "node:fs"
import { createSecureServer, createServer } from "node:http2"

const [kind, certificate, key] = process.argv.slice(2)
const options = { maxSessionMemory: 100 }
const server = kind === "secure"
    ? createSecureServer({ ...options, cert: readFileSync(certificate), key: readFileSync(key), allowHTTP1: true }) : createServer(options)

server.on("session", session => {
    let streams = 0
    console.log("session")
    // GOAWAY in order, as servers do that bound the age of a connection.
    session.on("stream", () => { if (++streams === 100) session.close() })
})
server.on("request", (request, response) => {
    const path = request.url.split("?")[0].split("/").pop()
    if (path === "echo") {
        response.writeHead(200, { "content-type": "application/octet-stream" })
        request.pipe(response)
    } else if (path === "trailers") {
        let length = 0
        request.on("data", data => { length += data.length })
        request.on("end", () => {
            response.stream?.additionalHeaders({ ":status": 103, link: "</a>; rel=preload" })
            response.writeHead(200)
            response.write("body")
            response.addTrailers({ "x-sum": String(length), "x-mine": request.trailers["x-mine"] ?? "none" })
            response.end()
        })
    } else if (path === "endless") {
        request.stream.on("aborted", () => console.log("aborted"))
        const timer = setInterval(() => response.write("x".repeat(1000)), 5)
        request.stream.on("close", () => clearInterval(timer))
    } else {
        response.setHeader("x-version", request.httpVersion)
        response.setHeader("x-authorization", request.headers.authorization ?? "none")
        response.end("ok")
    }
})
server.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`))
