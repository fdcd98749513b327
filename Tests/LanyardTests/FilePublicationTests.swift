import COpenSSL
import Foundation
import LanyardBroker
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings
import LanyardTelemetry
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Lanyard
@testable import LanyardRequestPath

/// A reload and the watches of files: what is applied is never older than what is in use, and each thing has one writer.
@Suite struct FilePublicationTests {
    /// The request path of one listener, with the watches of its files. Time passes because a test says so.
    private final class Bench: Sendable {
        static let authority = TestAuthority("Clients")
        static let other = TestAuthority("Other clients")

        let folder: TemporaryFolder
        let path: RequestPath
        let loop: EventLoop
        let reload: RequestPathReload
        let running: Configuration
        let capabilities: CapabilityWatches
        let fields: FieldFileWatches
        let publication = FilePublication()
        let upstreamTLS: UpstreamTLSWatches
        let listenerTLS: ListenerTLSWatches
        private let capabilityFiles = FileReader()
        private let fieldFiles = FileReader()

        init() throws {
            folder = try TemporaryFolder()
            let issued = TestAuthority("Server").issue("DNS:localhost")
            try folder.write("cert.pem", issued.certificate)
            try folder.write("key.pem", issued.key)
            try folder.write("clients.pem", Self.authority.pem + Self.other.pem)
            try folder.write("upstreams.pem", Self.authority.pem + Self.other.pem)
            try folder.write("a.capability", Self.capability("a"))
            try folder.write("b.capability", Self.capability("b"))
            for name in ["key", "other"] { try folder.write(name, "first \(name)") }
            let configuration = try Self.load(in: folder)
            let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let (upstream, listener) = (try UpstreamTLS(configuration), try ListenerTLS(configuration.listeners))
            let files = try RequestPathFiles(configuration, running: nil)
            path = try RequestPath(
                RequestPath.Settings(configuration, upstream, files.fieldSecrets),
                sockets: try configuration.listeners.map { try ListeningSocket($0) },
                capabilities: files.secrets(ofPlaces: 2),
                listenerTLS: listener.contexts,
                names: UserNames(["alice"]), shardCount: 2, source: SessionTokenSource(), log: log)
            let (loop, plan) = (try EventLoop(label: "test.files"), configuration.listeners.capabilityPlaces)
            capabilities = CapabilityWatches(
                plan, for: path, by: publication, reading: capabilityFiles, on: loop, log: log)
            fields = FieldFileWatches(
                configuration.fieldFiles, for: path, by: publication, reading: fieldFiles, on: loop, log: log)
            upstreamTLS = UpstreamTLSWatches(upstream, of: path.targets, by: publication, on: loop, log: log)
            listenerTLS = ListenerTLSWatches(
                listener, configuration.listeners, for: path, by: publication, on: loop, log: log)
            reload = RequestPathReload(
                path, RequestSecretWatches(capabilities: capabilities, fields: fields), upstreamTLS, listenerTLS,
                AccessLogSwitch(LogPipe(), shardCount: 2), IssuedTokens(log: log), by: publication)
            (running, self.loop) = (configuration, loop)
            path.start()
            loop.start()
            loop.freezeTime()
            capabilities.start()
            fields.start()
            upstreamTLS.start()
            listenerTLS.start()
            loop.pass(.seconds(5))
        }

        deinit {
            capabilities.stop()
            fields.stop()
            upstreamTLS.stop()
            listenerTLS.stop()
            capabilityFiles.stop()
            fieldFiles.stop()
            loop.stop()
            path.abort()
        }

        static func capability(_ letter: String) -> String { String(repeating: letter, count: 40) }

        static func load(
            in folder: TemporaryFolder, capabilities: [String] = ["a", "b"], names: String = "", connect: String = "5s",
            fields: String = "{X-Key: {file: key}}"
        ) throws -> Configuration {
            let listeners = capabilities.map { name in
                """
                - address: 127.0.0.1:0
                  capability_file: \(name).capability
                  tls: {certificate_file: cert.pem, key_file: key.pem, client_ca_file: clients.pem\(names)}
                """
            }
            let text = """
                listeners:
                \(listeners.joined(separator: "\n"))
                identities: {demo: {static: {token_file: /nowhere/token}}}
                users: {alice: {identity: demo}}
                routes:
                - upstream: https://localhost:9
                  tls: {ca_file: upstreams.pem}
                  timeouts: {connect: \(connect)}
                  set_headers: \(fields)
                """
            let loaded = Configuration.load(text: Array(text.utf8), path: folder.file("lanyard.yaml"))
            return try #require(loaded.configuration, "\(loaded.diagnostics)")
        }

        /// What a shard uses in one turn.
        struct Visible: Equatable, Sendable {
            let capability: String?
            let hasNames: Bool
            let upstreamAuthorities: CInt
            let routes: ObjectIdentifier

            /// On the shard's queue.
            init(_ shard: Shard) {
                capability = shard.clients.capabilities[0].map { $0.withBytes { String(decoding: $0, as: UTF8.self) } }
                hasNames = shard.clients.listenerTLS[0]?.clientNames.isEmpty == false
                upstreamAuthorities = Self.authorities(shard.served.pools[0].trust?.context)
                routes = ObjectIdentifier(shard.served.configuration)
            }

            private static func authorities(_ context: TLSClientContext?) -> CInt {
                guard let context else { return -1 }
                return OPENSSL_sk_num(X509_STORE_get0_objects(SSL_CTX_get_cert_store(context.raw)))
            }
        }

        var visible: Visible { onShard { Visible($0) } }

        var shard: Shard { path.shards[0] }

        /// On the shard's queue.
        func onShard<Value: Sendable>(_ read: @escaping @Sendable (Shard) -> Value) -> Value {
            let shard = shard
            return shard.loop.perform { read(shard) }
        }

        func capability(_ index: Int) -> String? {
            onShard { $0.clients.capabilities[index].map { $0.withBytes { String(decoding: $0, as: UTF8.self) } } }
        }

        /// What the fields of the route would hold, on one shard; nil: a file cannot be used.
        func values(_ shard: Shard) -> [String?] {
            shard.loop.perform {
                shard.served.routes[0].fieldValues.map { $0.secret?.withBytes { String(decoding: $0, as: UTF8.self) } }
            }
        }

        func prepare(_ configuration: Configuration, _ files: RequestPathFiles) -> RequestPathReload.Prepared {
            let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            return reload.prepare(RequestPathReload.plan(configuration, files, log))
        }

        /// What a reload does with files that were read before.
        func apply(_ configuration: Configuration, _ files: RequestPathFiles) {
            let prepared = prepare(configuration, files)
            reload.commit(prepared, active: nil)
            reload.finish(prepared)
        }

        /// Whether clients of the authority that is removed would be admitted.
        var trustsBoth: Bool { onShard { $0.clients.listenerTLS[0]?.authorityDigests?.count } == 2 }

        /// The authorities that the upstream's certificate may be of.
        var upstreamAuthorities: CInt { visible.upstreamAuthorities }

        func replace(_ name: String, by text: String) throws {
            try folder.write(name + ".new", text)
            guard rename(folder.file(name + ".new"), folder.file(name)) == 0 else { throw TestFailure("\(name)") }
        }
    }

    @Test("an authority that was removed while the reload waited stays removed")
    func removedAuthority() throws {
        let bench = try Bench()
        #expect(bench.trustsBoth)
        let next = try Bench.load(in: bench.folder, names: ", client_names: [\"DNS:any\"]")
        for configuration in [bench.running, next] {
            try bench.replace("clients.pem", by: Bench.authority.pem + Bench.other.pem)
            bench.loop.pass(.seconds(10))
            #expect(bench.trustsBoth)
            // Read early …
            let files = try RequestPathFiles(configuration, running: bench.running)
            try bench.replace("clients.pem", by: Bench.authority.pem)
            bench.loop.pass(.seconds(10))
            #expect(!bench.trustsBoth)
            // … and applied late.
            bench.apply(configuration, files)
            #expect(!bench.trustsBoth)
            bench.loop.pass(.seconds(10))
            #expect(!bench.trustsBoth)
            if configuration.listeners != bench.running.listeners { return }
        }
    }

    @Test("a reload that finds a renewed certificate keeps the keys of session tickets; one with other files does not")
    func ticketKeys() throws {
        let bench = try Bench()
        let tickets = { bench.onShard { $0.clients.listenerTLS.map { $0.map { ObjectIdentifier($0.tickets) } } } }
        let certificates = { bench.onShard { $0.clients.listenerTLS.map { $0.map { ObjectIdentifier($0) } } } }
        let (keys, contexts) = (tickets(), certificates())
        // A reload follows a renewal before the watch has seen it.
        let renewed = TestAuthority("Server").issue("DNS:localhost")
        try bench.replace("cert.pem", by: renewed.certificate)
        try bench.replace("key.pem", by: renewed.key)
        bench.apply(bench.running, try RequestPathFiles(bench.running, running: bench.running))
        #expect(certificates()[0] != contexts[0] && certificates()[1] != contexts[1])
        #expect(tickets() == keys)
        // The watch of the new files has them, too.
        try bench.replace("clients.pem", by: Bench.authority.pem)
        bench.loop.pass(.seconds(10))
        #expect(!bench.trustsBoth && tickets() == keys)
        // Tickets name the authorities and the names under which they were given.
        let named = try Bench.load(in: bench.folder, names: ", client_names: [\"DNS:any\"]")
        bench.apply(named, try RequestPathFiles(named, running: bench.running))
        #expect(tickets()[0] != keys[0] && tickets()[1] != keys[1])
    }

    @Test("an authority that came and went while the reload waited is not in use afterwards")
    func cameAndWent() throws {
        let bench = try Bench()
        try bench.replace("clients.pem", by: Bench.authority.pem)
        bench.loop.pass(.seconds(10))
        try bench.replace("clients.pem", by: Bench.authority.pem + Bench.other.pem)
        let files = try RequestPathFiles(bench.running, running: bench.running)
        try bench.replace("clients.pem", by: Bench.authority.pem)
        // The watch has never seen the other one, and has read the file later than the reload.
        bench.loop.pass(.seconds(10))
        bench.apply(bench.running, files)
        #expect(!bench.trustsBoth)
    }

    @Test("an upstream's authority that was removed while the reload waited stays removed, for kept and new upstreams")
    func upstream() throws {
        let bench = try Bench()
        for connect in ["5s", "6s"] {
            try bench.replace("upstreams.pem", by: Bench.authority.pem + Bench.other.pem)
            bench.loop.pass(.seconds(10))
            let configuration = try Bench.load(in: bench.folder, connect: connect)
            let files = try RequestPathFiles(configuration, running: bench.running)
            try bench.replace("upstreams.pem", by: Bench.authority.pem)
            bench.loop.pass(.seconds(10))
            let before = bench.path.targets[0]
            let epoch = bench.onShard { $0.served.pools[0].trust?.epoch }
            bench.apply(configuration, files)
            let target = bench.path.targets[0]
            if target === before { #expect(bench.onShard { $0.served.pools[0].trust?.epoch } == epoch) }
            #expect((target === before) == (connect == "5s"))
            #expect(bench.upstreamAuthorities == 1)
            bench.loop.pass(.seconds(10))
            #expect(bench.upstreamAuthorities == 1)
        }
    }

    @Test(
        "listeners that exchange their capability files get what the files hold now, also if one cannot be used any more"
    )
    func exchanged() throws {
        let bench = try Bench()
        let next = try Bench.load(in: bench.folder, capabilities: ["b", "a"])
        let files = try RequestPathFiles(next, running: bench.running)
        try bench.replace("a.capability", by: "short")
        try bench.replace("b.capability", by: Bench.capability("c"))
        bench.loop.pass(.seconds(10))
        #expect(bench.capability(0) == nil && bench.capability(1) == Bench.capability("c"))
        bench.apply(next, files)
        #expect(bench.capability(0) == Bench.capability("c") && bench.capability(1) == nil)
    }

    @Test("a reload adds, keeps and removes files of fields; what is sent is what they hold now, on each shard")
    func fields() throws {
        let bench = try Bench()
        func expect(_ values: [String?], _ when: Comment) {
            for shard in bench.path.shards { #expect(bench.values(shard) == values, when) }
        }
        expect(["first key"], "the start")
        // A file that stays keeps its watch and what that has read last; another one is read by the reload.
        let both = try Bench.load(in: bench.folder, fields: "{X-Other: {file: other}, X-Key: {file: key}}")
        let files = try RequestPathFiles(both, running: bench.running)
        try bench.replace("key", by: "second key")
        try bench.replace("other", by: "second other")
        bench.loop.pass(.seconds(10))
        expect(["second key"], "the watch has read it")
        bench.apply(both, files)
        #expect(bench.values(bench.shard).last == "second key")
        bench.loop.pass(.seconds(10))
        expect(["second other", "second key"], "the new watch has read it")
        let other = try Bench.load(in: bench.folder, fields: "{X-Key: {file: other}}")
        bench.apply(other, try RequestPathFiles(other, running: both))
        #expect(bench.onShard { Array($0.served.fieldValues.keys) } == [bench.folder.file("other")])
        try bench.replace("other", by: "has\ntwo lines")
        bench.loop.pass(.seconds(10))
        expect([nil], "it cannot be used")
        let none = try Bench.load(in: bench.folder, fields: "{X-Key: plain}")
        bench.apply(none, try RequestPathFiles(none, running: other))
        expect([], "no file is named")
    }

    @Test("a reload fails that names another file of a field which cannot be used; nothing changes")
    func unusableField() throws {
        let bench = try Bench()
        try bench.folder.write("two", "has\ntwo lines")
        for (name, words) in [("none", "does not exist"), ("two", "has more than one line")] {
            let next = try Bench.load(in: bench.folder, fields: "{X-Key: {file: \(name)}}")
            let error = #expect(throws: ConfiguredFileError.self) {
                try RequestPathFiles(next, running: bench.running)
            }
            #expect(error?.owner == .route(0) && error?.path == bench.folder.file(name))
            #expect(error?.message.contains(words) == true, "\(String(describing: error))")
        }
        // What the running configuration names already is no fault of the reload.
        try bench.replace("key", by: "has\ntwo lines")
        let next = try Bench.load(in: bench.folder, connect: "6s")
        bench.apply(next, try RequestPathFiles(next, running: bench.running))
        bench.loop.pass(.seconds(10))
        #expect(bench.values(bench.shard) == [nil])
    }

    @Test("contexts, capabilities and routes become visible together in one turn of a shard, for kept upstreams too")
    func oneTurn() throws {
        let bench = try Bench()
        let next = try Bench.load(in: bench.folder, capabilities: ["b", "b"], names: ", client_names: [\"DNS:any\"]")
        try bench.replace("upstreams.pem", by: Bench.authority.pem)
        let prepared = bench.prepare(next, try RequestPathFiles(next, running: bench.running))
        let target = bench.path.targets[0]
        let former = bench.visible
        // The whole reload happens within one turn of the shard, which sees nothing of it.
        let within = bench.onShard { shard in
            bench.reload.commit(prepared, active: nil)
            return Bench.Visible(shard)
        }
        #expect(within == former)
        let visible = bench.visible
        #expect(visible.capability == Bench.capability("b") && visible.hasNames && visible.upstreamAuthorities == 1)
        #expect(visible.routes != former.routes && bench.path.targets[0] === target)
    }

    @Test("a reload that was prepared and fails leaves contexts, capabilities and routes as they are")
    func dropped() throws {
        let bench = try Bench()
        try bench.replace("upstreams.pem", by: Bench.authority.pem)
        let former = (bench.visible, bench.path.targets[0])
        for connect in ["5s", "6s"] {
            let next = try Bench.load(
                in: bench.folder, capabilities: ["b", "b"], names: ", client_names: [\"DNS:any\"]", connect: connect)
            _ = bench.prepare(next, try RequestPathFiles(next, running: bench.running))
            #expect(bench.visible == former.0 && bench.path.targets[0] === former.1)
        }
    }

    @Test("the watches of a replaced configuration publish nothing, also while a shard is slow")
    func oneWriter() throws {
        let bench = try Bench()
        let next = try Bench.load(
            in: bench.folder, capabilities: ["b", "b"], names: ", client_names: [\"DNS:any\"]", connect: "6s")
        let files = try RequestPathFiles(next, running: bench.running)
        let gate = Milestone()
        bench.shard.loop.post { gate.wait(for: "the end of the shard's stop") }
        let (former, done) = (bench.path.targets[0], Milestone())
        Thread.detachNewThread {
            bench.apply(next, files)
            done.set()
        }
        try blockUntil("the reload hands over its routes") { bench.path.targets[0] !== former }
        // It has done so when its turn has ended.
        bench.publication.turn { _ in }
        // The files of the former configuration change, and another authority is trusted by its watch, if there still is one.
        try bench.replace("a.capability", by: Bench.capability("c"))
        try bench.replace("clients.pem", by: Bench.other.pem)
        let seen = Guarded<(String?, Bool)?>(nil)
        // The other shard gets nothing of them, for as long as the reload waits for the first one.
        let other = bench.path.shards[1]
        for _ in 0..<5 {
            bench.loop.pass(.seconds(1))
            let present = other.loop.perform { Bench.Visible(other) }
            #expect(present.capability == Bench.capability("b") && present.hasNames)
        }
        bench.shard.loop.post { [shard = bench.shard] in
            let capability = shard.clients.capabilities[0].map { $0.withBytes { String(decoding: $0, as: UTF8.self) } }
            seen.withLock { $0 = (capability, shard.clients.listenerTLS[0]?.clientNames.isEmpty ?? true) }
        }
        gate.set()
        try blockUntil("the reload has ended") { done.isSet && seen.withLock { $0 } != nil }
        #expect(seen.withLock { $0?.0 } == Bench.capability("b"))
        #expect(seen.withLock { $0?.1 } == false)
        bench.loop.pass(.seconds(10))
        #expect(bench.capability(0) == Bench.capability("b"))
        #expect(bench.onShard { $0.clients.listenerTLS[0]?.clientNames.isEmpty } == false)
    }
}
