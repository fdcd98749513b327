import TestSupport
import Testing

@testable import SystemTestSupport

/// "Our dashboards speak WebSocket": Debian's python3-websockets on both sides of the built binary.
@Suite struct LongWebSocketTests {
    /// Echoes what comes, to those who come with the token.
    private static let server = """
        import asyncio, json, ssl, sys, websockets
        path, token, folder = sys.argv[1], sys.argv[2], sys.argv[4]
        async def echo(socket):
            if socket.request_headers.get_all("Authorization") != ["Bearer " + token]:
                await socket.close(1008)
                return
            async for message in socket:
                await socket.send(message)
        async def main():
            settings = dict(max_size=None, compression="deflate" if sys.argv[3] == "deflate" else None)
            if folder:
                settings["ssl"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                settings["ssl"].load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
            if path:
                server = await websockets.unix_serve(echo, path, **settings)
                address = "unix:" + path
            else:
                server = await websockets.serve(echo, "127.0.0.1", 0, **settings)
                address = "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
            print(json.dumps({"event": "listening", "address": address}), file=sys.stderr, flush=True)
            await asyncio.Future()
        asyncio.run(main())

        """

    /// Sends messages of mixed sizes, text and binary, many at once, and compares each echo; then closes in order.
    private static let client = """
        import asyncio, json, random, ssl, sys, websockets
        address, count, compression, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
        sizes = [0, 1, 2, 125, 126, 127, 1000, 4095, 4096, 16384, 65535, 65536, 65537]
        block = random.Random(1).randbytes(1 << 20)
        def message(index):
            size = 1 << 20 if index % 500 == 499 else sizes[index % len(sizes)]
            start = (index * 7919) % ((1 << 20) - size + 1)
            data = block[start:start + size]
            return data.hex()[:size] if index % 3 == 0 else data
        async def main():
            settings = dict(max_size=None, compression="deflate" if compression == "deflate" else None)
            if folder:
                settings["ssl"] = ssl.create_default_context(cafile=folder + "/ca.pem")
                connecting = websockets.connect("wss://localhost:" + address.split(":")[1] + "/echo", **settings)
            elif address.startswith("unix:"):
                connecting = websockets.unix_connect(address[5:], uri="ws://localhost/echo", **settings)
            else:
                connecting = websockets.connect("ws://" + address + "/echo", **settings)
            async with connecting as socket:
                window = asyncio.Semaphore(64)
                async def send():
                    for index in range(count):
                        await window.acquire()
                        await socket.send(message(index))
                sending = asyncio.create_task(send())
                total = 0
                for index in range(count):
                    got = await socket.recv()
                    assert got == message(index), "message %d differs" % index
                    total += len(got)
                    window.release()
                await sending
                await (await socket.ping())
            assert socket.close_code == 1000, socket.close_code
            print(json.dumps({"event": "done", "messages": count, "bytes": total}), file=sys.stderr, flush=True)
        asyncio.run(main())

        """

    /// Keys of the listener and of the route for TLS on both sides, whose files are written to the folder.
    private func certificates(in folder: TemporaryFolder) throws -> (listener: String, route: String) {
        let authority = TestAuthority()
        let issued = authority.issue()
        let file = try folder.write("cert.pem", issued.certificate)
        let key = try folder.write("key.pem", issued.key)
        let trust = try folder.write("ca.pem", authority.pem)
        return (", tls: {certificate_file: \(file), key_file: \(key)}", ", tls: {ca_file: \(trust)}")
    }

    private func route(to address: String, _ path: String, _ tls: (listener: String, route: String)?) -> String {
        if !path.isEmpty { return "upstream: \"\(address)\"" }
        guard let tls else { return "upstream: \"http://\(address)\"" }
        return "upstream: \"https://localhost:\(address.drop { $0 != ":" }.dropFirst())\"\(tls.route)"
    }

    @Test(
        "10,000 messages of mixed sizes are echoed whole and in order",
        arguments: [("tcp", "none"), ("unix", "none"), ("tcp", "deflate"), ("tls", "none"), ("tls", "deflate")])
    func echo(_ transport: String, _ compression: String) async throws {
        let folder = try TemporaryFolder()
        let token = "websocket-token"
        let (serverScript, clientScript) = try (folder.write("s.py", Self.server), folder.write("c.py", Self.client))
        let path = transport == "unix" ? folder.file("up") : ""
        let tls = try transport == "tls" ? certificates(in: folder) : nil
        let server = try ServerProcess(
            "/usr/bin/python3", [serverScript, path, token, compression, tls == nil ? "" : folder.path])
        let address = try await server.event("listening")["address"].string ?? ""
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(try folder.write("token", token))}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, \(route(to: address, path, tls))}]
            """,
            listener: "address: \"\(path.isEmpty ? "127.0.0.1:0" : "unix:\(folder.file("in"))")\"\(tls?.listener ?? "")"
        )
        try await lanyard.untilReady()
        let client = try ServerProcess(
            "/usr/bin/python3",
            [clientScript, "\(lanyard.data)", "10000", compression, tls == nil ? "" : folder.path])
        #expect(try await client.waitForExit() == .code(0))
        let done = try await client.event("done")
        #expect(done["messages"].int == 10_000)
        #expect(done["bytes"].int ?? 0 > 150 << 20)
        try await eventually("the tunnel has ended") {
            let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
            return page.contains("lanyard_upgraded_connections 0\n")
        }
        #expect(try await lanyard.process.terminate() == .code(143))
    }
}
