// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: Swift 6 mode, no import leaking between files, no warning left standing.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

/// `LANYARD_FUZZ=1` builds for libFuzzer (deploy/fuzz): our code counts the edges that it takes, and checks its preconditions although
/// it is optimised.
let isFuzzing = Context.environment["LANYARD_FUZZ"] != nil
let fuzzed: [SwiftSetting] = isFuzzing ? [.unsafeFlags(["-sanitize=fuzzer", "-assert-config", "Debug"])] : []

/// `LANYARD_COMMIT` is the source of the build (deploy/machine.sh sets it). Not `Context.gitInformation`: it is kept with the manifest's
/// evaluation and goes stale.
let commit: [CSetting] =
    Context.environment["LANYARD_COMMIT"]
    .flatMap { name in name.isEmpty || !name.allSatisfy { $0.isHexDigit || "-dirty".contains($0) } ? nil : name }
    .map { [.define("LANYARD_COMMIT", to: "\"\($0)\"")] } ?? []

let package = Package(
    name: "lanyard",
    products: [
        .executable(name: "lanyard", targets: ["LanyardTool"]),
        .executable(name: "lanyard-emulator", targets: ["LanyardEmulatorTool"]),
        .library(name: "LanyardEmulator", targets: ["LanyardEmulator"]),
        .executable(name: "lanyard-simulation", targets: ["SimulationTool"]),
        // For the tests alone, which preload it into the built program.
        .library(name: "HangingFiles", type: .dynamic, targets: ["HangingFiles"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swhitty/FlyingFox", from: "0.27.1"),
    ],
    targets: [
        // The C of the library: typed doors to what Swift cannot call or see. Beside it CBuildCommit and, in the tests, TornSockets and
        // HangingFiles are C.
        .target(
            name: "CLanyard",
            linkerSettings: [
                .linkedLibrary("curl"), .linkedLibrary("ssl"), .linkedLibrary("crypto"), .linkedLibrary("yaml"),
            ]
        ),
        .target(
            name: "Lanyard",
            dependencies: ["CLanyard", .product(name: "Logging", package: "swift-log")],
            // Exclusive access is checked at run time in debug builds, under which all tests run; in the release build the checks cost
            // 4 % of the request path's CPU.
            swiftSettings: strict + fuzzed
                + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]
        ),
        .target(name: "CBuildCommit", cSettings: commit),
        .executableTarget(
            name: "LanyardTool",
            dependencies: [
                "CBuildCommit", "CLanyard", "Lanyard",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict
        ),
        // A stand-in of the App Services client API, for the demo and the tests; never linked into `lanyard`.
        .target(
            name: "LanyardEmulator",
            dependencies: [
                "CLanyard",
                .product(name: "FlyingFox", package: "FlyingFox"),
                .product(name: "FlyingSocks", package: "FlyingFox"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "LanyardEmulatorTool",
            dependencies: [
                "CLanyard", "LanyardEmulator", .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict
        ),
        // Raw sockets, FaultGate and process handling that both test targets use.
        .target(
            name: "TestSupport", dependencies: ["CLanyard", "Lanyard"], path: "Tests/TestSupport", swiftSettings: strict
        ),
        // Stands before libc's socket calls in the test program and tears what they move.
        .target(name: "TornSockets", path: "Tests/TornSockets"),
        // Preloaded into the built program: files that hang for as long as a test likes.
        .target(name: "HangingFiles", path: "Tests/HangingFiles", linkerSettings: [.linkedLibrary("dl")]),
        // What each reader promises for every input: the fuzzing and the ordinary tests hold it to that.
        .target(
            name: "FuzzHeads", dependencies: ["Lanyard"], path: "Tests/Fuzz/Heads", swiftSettings: strict + fuzzed
        ),
        // A fleet of sessions in virtual time (docs/simulation.md): its world for the tests, and the long run as a program of its own, since
        // tests are built for debugging.
        .target(
            name: "FleetSimulation", dependencies: ["Lanyard"], path: "Tests/Simulation/Fleet", swiftSettings: strict
        ),
        .executableTarget(
            name: "SimulationTool", dependencies: ["FleetSimulation", "Lanyard"], path: "Tests/Simulation/Tool",
            swiftSettings: strict
        ),
        .testTarget(
            name: "LanyardTests",
            dependencies: [
                "Lanyard", "TestSupport", "TornSockets", "FuzzHeads", "FleetSimulation", "LanyardEmulator", "CLanyard",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SystemTests",
            dependencies: ["CLanyard", "Lanyard", "TestSupport", "LanyardTool", "LanyardEmulatorTool"],
            swiftSettings: strict
        ),
    ],
    cLanguageStandard: .gnu11
)

if isFuzzing {
    package.products.append(.executable(name: "lanyard-fuzz", targets: ["LanyardFuzz"]))
    package.targets.append(
        .executableTarget(
            name: "LanyardFuzz", dependencies: ["FuzzHeads", "Lanyard"], path: "Tests/Fuzz/Driver",
            swiftSettings: strict,
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer", "-use-ld=lld"])]
        ))
}
