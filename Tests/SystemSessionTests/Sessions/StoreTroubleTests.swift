import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Disks and files that a store may meet, with the program as an unprivileged user: root passes every check.
@Suite struct StoreTroubleTests {
    /// Of the programs. It runs; what waits for time passes it.
    private let clock: TestClock

    init() throws { clock = try TestClock() }

    /// Short tokens and one-use refresh tokens: whatever is lost shows at once.
    private func bench(rotation: String = "one_use") async throws -> (emulator: EmulatorProcess, device: Device) {
        let emulator = try await EmulatorProcess.start(
            tokens: "10s", under: clock, arguments: ["--rotation", rotation])
        let device = try await Device.make(
            emulator, users: [Device.alice], rotation: rotation, as: .nobody, under: clock)
        return (emulator, device)
    }

    private func expectFailingThenWell(
        _ running: DeviceProcess, _ emulator: EmulatorProcess, mend: () async throws -> Void
    ) async throws {
        clock.stop()
        try await clock.pass(until: "the check store fails", grain: .milliseconds(500)) {
            try await running.check("store")["reason"].string == "store_failing"
        }
        let refreshes = try await emulator.calls("refresh")
        try await clock.pass(until: "it continues to renew the token in memory", grain: .milliseconds(500)) {
            #expect(try await running.account(at: "/") != nil)
            return try await emulator.calls("refresh") >= refreshes + 2
        }
        #expect(try await RawClient.ask(running.health, "GET", "/readyz").status == 200)
        try await mend()
        try await clock.pass(until: "the check store passes again", grain: .milliseconds(500)) {
            let check = try await running.check("store")
            return check["ok"].bool == true && check["reason"].string == "stored"
        }
    }

    /// The store holds the newest token: after a crash nothing but that is used, and no user logs in anew.
    private func expectNothingLost(
        _ running: DeviceProcess, _ emulator: EmulatorProcess, startAgain: () async throws -> DeviceProcess
    ) async throws {
        // No call is in progress once the token lives for long.
        try await emulator.control("PUT", "/settings", #"{"access_token_seconds":600}"#)
        try await clock.pass(until: "the next refresh is far away", grain: .milliseconds(500)) {
            let line = running.process.lines.last { $0.event == "session.refresh.succeeded" }
            guard let line, let next = Timestamps.seconds(line.json["next_at"]) else { return false }
            return next > clock.now + 60
        }
        try await running.kill()
        clock.run()
        let again = try await startAgain()
        #expect(again.openIntents.isEmpty, "\(again.process.log)")
        try await again.untilReady()
        let total = try await emulator.control("GET", "/ledger")["total"]
        #expect(total["logins"]["local-userpass"].int == 1, "\(total)\n\(again.process.log)")
        #expect(total["family_kills"].int == 0 && total["calls_of_dead_sessions"].int == 0, "\(total)")
        #expect(try await again.process.terminate() == .code(143))
    }

    @Test(
        "a limit on file sizes stops the writing and nothing else; when it is lifted the newest session is stored")
    func fileSizeLimit() async throws {
        let (emulator, device) = try await bench()
        let running = try await device.start()
        try await running.untilReady()
        try await limit(running.process.pid, "--fsize=16:", device.account)
        try await expectFailingThenWell(running, emulator) {
            try await limit(running.process.pid, "--fsize=unlimited:", device.account)
        }
        try await running.process.event("store.failing")
        try await expectNothingLost(running, emulator) { try await device.start() }
    }

    /// A process of the same user may set its limits; root in a container may not.
    private func limit(_ pid: pid_t, _ option: String, _ account: ServerProcess.UnixUser) async throws {
        let prlimit = try ServerProcess("/usr/bin/prlimit", ["--pid", "\(pid)", option], as: account)
        guard try await prlimit.waitForExit() == .code(0) else { throw TestFailure("prlimit: \(prlimit.log)") }
    }

    /// A small file system in a namespace of its own, which outlives the program: another process holds it. Whom to ask,
    /// and how to start there.
    private func mount(_ options: String, at folder: String) async throws -> (ServerProcess, launcher: [String]) {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        let mount = "mount -t tmpfs -o \(options),mode=700,uid=65534,gid=65534 tmpfs \(folder)"
        let holder = try ServerProcess(
            "/usr/bin/unshare", ["-m", "/bin/sh", "-c", "\(mount) && echo mounted && exec sleep 1000"])
        try await eventually("the file system is mounted") { holder.output == "mounted\n" }
        let launcher = [
            "/usr/bin/nsenter", "--mount=/proc/\(holder.pid)/ns/mnt", "/usr/bin/setpriv", "--reuid=65534",
            "--regid=65534", "--clear-groups", "--pdeathsig", "KILL",
        ]
        return (holder, Launcher.moving(launcher, under: clock))
    }

    @Test(
        "a full file system stops the writing and nothing else; with room again the newest session is stored",
        .enabled(if: MountNamespace.isPossible, "needs root and mount namespaces"))
    func fullFileSystem() async throws {
        let (emulator, device) = try await bench()
        let (holder, launcher) = try await mount("size=64k", at: device.storeFolder)
        let running = try await device.start(launcher: launcher, by: .same)
        try await running.untilReady()
        let filler = "/proc/\(holder.pid)/root\(device.storeFolder)/filler"
        try fill(filler)
        try await expectFailingThenWell(running, emulator) {
            let status = try await CommandRun(["status", "--admin", "\(running.admin.endpoint)"])
            let line = status.output.prefix { $0 != "\n" }
            let (cause, remedy) = ("WARNING: the store cannot be written, for ", "; what to do: free space where ")
            #expect(line.hasPrefix(cause) && line.contains("No space left on device"), "\(line)")
            #expect(line.contains(remedy + device.storeFolder + " is"), "\(line)")
            guard unlink(filler) == 0 else { throw TestFailure("unlink: errno \(errno)") }
        }
        try await expectNothingLost(running, emulator) { try await device.start(launcher: launcher, by: .same) }
    }

    /// Writes until there is no room.
    private func fill(_ path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw TestFailure("\(path): errno \(errno)") }
        defer { close(descriptor) }
        let page = [UInt8](repeating: 0, count: 4096)
        while write(descriptor, page, page.count) > 0 {}
        guard errno == ENOSPC else { throw TestFailure("\(path): errno \(errno)") }
    }

    @Test(
        "no room for one more file at the start: Lanyard continues with the stored sessions, and stores again when there is",
        .enabled(if: MountNamespace.isPossible, "needs root and mount namespaces"))
    func fullAtStart() async throws {
        let (emulator, device) = try await bench()
        let (holder, launcher) = try await mount("size=1m,nr_inodes=32", at: device.storeFolder)
        let first = try await device.start(launcher: launcher, by: .same)
        try await first.untilReady()
        #expect(try await first.process.terminate() == .code(143))
        let fillers = (0..<64).map { "/proc/\(holder.pid)/root\(device.storeFolder)/filler\($0)" }
        for filler in fillers { close(open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)) }
        let running = try await device.start(launcher: launcher, by: .same)
        try await running.untilReady()
        try await expectFailingThenWell(running, emulator) { for filler in fillers { unlink(filler) } }
        let failed = try await running.process.event("store.write_failed")
        #expect(failed["msg"].string?.contains("No space left") == true, "\(failed)")
        try await expectNothingLost(running, emulator) { try await device.start(launcher: launcher, by: .same) }
    }

    @Test(
        "logins and switches say whether a restart would find them",
        .enabled(if: getuid() == 0, "needs root, to run as another user"))
    func unstoredLogins() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s", under: clock)
        let device = try await Device.make(emulator, as: .nobody, under: clock)
        let running = try await device.start()
        try await running.untilReady()
        try await emulator.add("carol@example.com", password: "carol-secret-word")
        let credential = #"{"email_password":{"email":"carol@example.com","password":"carol-secret-word"}}"#
        let calls = [
            ("/v1/users", #"{"name":"carol","identity":"demo","credential":\#(credential)}"#),
            ("/v1/users/alice/login", nil), ("/v1/users/carol/activate", nil),
        ]
        #expect(try await running.admin.call("POST", "/v1/users/bob/activate")["stored"].bool == true)
        #expect(chmod(device.storeFolder, 0o500) == 0 && chmod(device.storePath, 0o400) == 0)
        for (path, body) in calls {
            let response = try await running.admin.call("POST", path, body)
            #expect(response["stored"].bool == false && response["state"].string == "active", "\(path): \(response)")
        }
        #expect(chmod(device.storeFolder, 0o700) == 0 && chmod(device.storePath, 0o600) == 0)
        try await clock.pass(until: "all of it is stored", grain: .milliseconds(500)) {
            try await running.check("store")["ok"].bool == true
        }
        for path in ["/v1/users/alice/login", "/v1/users/carol/activate"] {
            #expect(try await running.admin.call("POST", path)["stored"].bool == true, "\(path)")
        }
        try await running.kill()
        let again = try await device.start()
        try await again.untilReady()
        #expect(try await again.admin.status().active == "carol")
        #expect(try await again.process.terminate() == .code(143))
    }

    @Test(
        "a folder that has become read-only stops the writing and nothing else",
        .enabled(if: getuid() == 0, "needs root, to run as another user"))
    func readOnlyFolder() async throws {
        let (emulator, device) = try await bench()
        let running = try await device.start()
        try await running.untilReady()
        #expect(chmod(device.storeFolder, 0o500) == 0 && chmod(device.storePath, 0o400) == 0)
        try await expectFailingThenWell(running, emulator) {
            #expect(chmod(device.storeFolder, 0o700) == 0 && chmod(device.storePath, 0o600) == 0)
        }
        try await expectNothingLost(running, emulator) { try await device.start() }
    }

    @Test(
        "a second Lanyard on the same store continues the session of the first; the store cannot be rekeyed until it ends"
    )
    func second() async throws {
        let (emulator, device) = try await bench()
        let one = try await device.start("one")
        try await one.untilReady()
        let two = try await device.start("two")
        try await two.untilReady()
        #expect(try await one.account(at: "/") == two.account(at: "/"))
        #expect(try await emulator.calls("login") == 1)
        let key = try device.folder.write("key.new", String(repeating: "n", count: 64))
        try device.giveAway()
        let rekey = try ServerProcess(
            "lanyard", ["store", "rekey", "--config", device.folder.file("one.yaml"), "--new-key-file", key],
            as: device.account)
        #expect(try await rekey.waitForExit() == .code(75), "\(rekey.log)\(rekey.output)")
        #expect((rekey.log + rekey.output).contains("in use"))
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
    }

    @Test("a second Lanyard with the same admin socket ends with 69, and the first continues")
    func secondAtSocket() async throws {
        let (_, device) = try await bench()
        let one = try await device.start("one")
        try await one.untilReady()
        let two = try device.launch("one")
        #expect(try await two.waitForExit() == .code(69), "\(two.log)")
        #expect(try await one.admin.status().active == "alice")
        #expect(try await one.account(at: "/") != nil)
        #expect(try await one.process.terminate() == .code(143))
    }
}
