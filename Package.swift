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
/// The shim of the HTTP/2 codec counts its memory for the tests, which are built for debugging, and for the fuzzing.
let codec: [CSetting] =
    isFuzzing
    ? [.unsafeFlags(["-fsanitize=fuzzer-no-link"]), .define("LANYARD_H2_COUNTED")]
    : [.define("LANYARD_H2_COUNTED", .when(configuration: .debug))]

/// A text of the environment that the build holds, if it has only such characters.
func given(_ name: String, _ isAllowed: (Character) -> Bool) -> [CSetting] {
    guard let value = Context.environment[name], !value.isEmpty, value.allSatisfy(isAllowed) else { return [] }
    return [.define(name, to: "\"\(value)\"")]
}

/// `LANYARD_COMMIT` is the source of the build (deploy/machine.sh sets it), `LANYARD_VERSION` its version, if it is not the tree's
/// (deploy/package sets it). Not `Context.gitInformation`: it is kept with the manifest's evaluation and goes stale.
let built =
    given("LANYARD_COMMIT") { $0.isHexDigit || "-dirty".contains($0) }
    + given("LANYARD_VERSION") { $0.isASCII && ($0.isLetter || $0.isNumber || ".+~-".contains($0)) }

/// The modules of `lanyard` do without the standard library's regular expressions, and without what it builds on them, such as a search for
/// a text within a text. Their code and tables would be a tenth of the program.
let withoutRegularExpressions: [SwiftSetting] = [
    .unsafeFlags(["-Xfrontend", "-disable-implicit-string-processing-module-import"])
]

let logging = Target.Dependency.product(name: "Logging", package: "swift-log")

/// What tests of the built programs need, and the programs.
let system: [Target.Dependency] = [
    "CLinux", "LanyardEmulatorTool", "LanyardFoundations", "LanyardTelemetry", "LanyardTool", "SystemTestSupport",
    "TestSupport",
]

/// The modules below the composition.
let library: [Target.Dependency] = [
    "LanyardAdmin", "LanyardBroker", "LanyardConfiguration", "LanyardFoundations", "LanyardIdentity",
    "LanyardRequestPath", "LanyardSessionInterface", "LanyardSessions", "LanyardSettings", "LanyardTelemetry",
    "LanyardVault",
]

extension Target {
    /// A module of the program. Exclusive access is checked at run time in debug builds, under which all tests run; in the release build
    /// the checks cost 4 % of the request path's CPU.
    static func module(_ name: String, _ dependencies: [Dependency]) -> Target {
        .target(
            name: name, dependencies: dependencies,
            swiftSettings: strict + withoutRegularExpressions + fuzzed
                + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]
        )
    }

    /// Tests, in the folder of their name below Tests.
    static func tests(_ name: String, _ dependencies: [Dependency], exclude: [String] = []) -> Target {
        .testTarget(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: strict)
    }
}

/// What is preloaded is not instrumented: programs without a sanitizer's runtime, such as setpriv, load it too.
let preloaded: [CSetting] = [.unsafeFlags(["-fno-sanitize=all"])]

let package = Package(
    name: "lanyard",
    products: [
        .executable(name: "lanyard", targets: ["LanyardTool"]),
        .executable(name: "lanyard-emulator", targets: ["LanyardEmulatorTool"]),
        .library(name: "LanyardEmulator", targets: ["LanyardEmulator"]),
        .executable(name: "lanyard-simulation", targets: ["SimulationTool"]),
        // For the tests alone, which preload them into the built programs.
        .library(name: "HangingFiles", type: .dynamic, targets: ["HangingFiles"]),
        .library(name: "Jitter", type: .dynamic, targets: ["Jitter"]),
        .library(name: "VirtualClock", type: .dynamic, targets: ["VirtualClock"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swhitty/FlyingFox", from: "0.27.1"),
    ],
    targets: [
        // C, one target for each library: typed shims of what Swift cannot call or see. Beside them CBuildCommit and, in the tests,
        // TornSockets, HangingFiles, Jitter, VirtualClock and ClockPage are C.
        .target(name: "CLinux"),
        .target(
            // The program has no path of the build: a build elsewhere gives the same one.
            name: "COpenSSL", dependencies: ["CLinux"], cSettings: [.define("OPENSSL_NO_FILENAMES")],
            linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        // libcurl is loaded at its first use (late.h).
        .target(name: "CCurl", dependencies: ["CLinux"]),
        .target(name: "CNGHTTP2", cSettings: codec, linkerSettings: [.linkedLibrary("nghttp2")]),
        .target(name: "CYAML", linkerSettings: [.linkedLibrary("yaml")]),
        // The modules of the program (docs/design/architecture.md 3.1).
        .module("LanyardFoundations", ["CLinux", "COpenSSL", logging]),
        .module("LanyardSettings", []),
        .module(
            "LanyardRequestPath",
            ["CLinux", "CNGHTTP2", "COpenSSL", "LanyardFoundations", "LanyardSettings", logging]),
        .module("LanyardBroker", ["LanyardFoundations", "LanyardRequestPath", "LanyardSettings", logging]),
        .module("LanyardSessionInterface", ["LanyardFoundations", "LanyardSettings"]),
        .module("LanyardSessions", ["LanyardFoundations", "LanyardSessionInterface", "LanyardSettings", logging]),
        .module(
            "LanyardIdentity",
            [
                "CCurl", "CLinux", "COpenSSL", "LanyardFoundations", "LanyardSessionInterface", "LanyardSettings",
                logging,
            ]),
        .module(
            "LanyardVault", ["COpenSSL", "LanyardFoundations", "LanyardSessionInterface", "LanyardSettings", logging]),
        .module("LanyardTelemetry", ["CLinux", "LanyardFoundations", "LanyardSettings", logging]),
        .module("LanyardConfiguration", ["CYAML", "LanyardFoundations", "LanyardSettings"]),
        .module(
            "LanyardAdmin",
            [
                "LanyardFoundations", "LanyardRequestPath", "LanyardSessionInterface", "LanyardSessions",
                "LanyardSettings",
                "LanyardTelemetry", logging,
            ]),
        .module("LanyardClient", ["CLinux", "LanyardConfiguration", "LanyardFoundations", "LanyardSettings"]),
        .module("Lanyard", library + ["CBuildCommit", "CLinux", logging]),
        .target(name: "CBuildCommit", cSettings: built),
        .executableTarget(
            name: "LanyardTool",
            dependencies: [
                "CBuildCommit", "CLinux", "COpenSSL", "Lanyard", "LanyardClient", "LanyardConfiguration",
                "LanyardFoundations", "LanyardRequestPath", "LanyardSessionInterface", "LanyardSettings",
                "LanyardVault",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict + withoutRegularExpressions
        ),
        // A stand-in of the App Services client API, for the demo and the tests; never linked into `lanyard`.
        .target(
            name: "LanyardEmulator",
            dependencies: [
                "COpenSSL", "CYAML",
                .product(name: "FlyingFox", package: "FlyingFox"),
                .product(name: "FlyingSocks", package: "FlyingFox"),
            ],
            swiftSettings: strict
        ),
        .executableTarget(
            name: "LanyardEmulatorTool",
            dependencies: [
                "CLinux", "LanyardEmulator", .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: strict
        ),
        // Raw sockets, FaultGate, process handling and traits that the test targets share.
        .target(
            name: "TestSupport",
            dependencies: ["CLinux", "COpenSSL", "ClockPage", "GrowingPool", "LanyardFoundations", logging],
            path: "Tests/TestSupport", swiftSettings: strict
        ),
        // An App Services client before a scripted server.
        .target(
            name: "IdentityTestSupport",
            dependencies: [
                "LanyardFoundations", "LanyardIdentity", "LanyardSessionInterface", "LanyardSettings", "TestSupport",
            ],
            path: "Tests/IdentityTestSupport", swiftSettings: strict
        ),
        // Stands before libc's socket calls in the test program and tears what they move. Beside it: how the test program ends. All test
        // targets are one program, so both concern each of them.
        .target(name: "TornSockets", dependencies: ["COpenSSL"], path: "Tests/TornSockets"),
        // The pool of threads that runs the test program's tasks: it grows, so a test may block.
        .target(name: "GrowingPool", path: "Tests/GrowingPool"),
        // Preloaded into the built program: files that hang for as long as a test likes.
        .target(
            name: "HangingFiles", path: "Tests/HangingFiles", cSettings: preloaded,
            linkerSettings: [.linkedLibrary("dl")]),
        // Preloaded into the built programs by deploy/jitter: threads that continue late, as a seed says.
        .target(
            name: "Jitter", path: "Tests/Jitter", cSettings: preloaded, linkerSettings: [.linkedLibrary("dl")]),
        // Preloaded into built programs: a clock that the test moves. The page that both share, and the test's side of it.
        .target(
            name: "VirtualClock", dependencies: ["ClockPage"], path: "Tests/VirtualClock", cSettings: preloaded,
            linkerSettings: [.linkedLibrary("dl")]),
        .target(name: "ClockPage", path: "Tests/ClockPage", cSettings: preloaded),
        // What each reader promises for every input: the fuzzing and the ordinary tests hold it to that.
        .target(
            name: "FuzzHeads",
            dependencies: [
                "CLinux", "CNGHTTP2", "LanyardConfiguration", "LanyardFoundations", "LanyardIdentity",
                "LanyardRequestPath",
                "LanyardSessionInterface", "LanyardSettings", "LanyardVault",
            ],
            path: "Tests/Fuzz/Heads", swiftSettings: strict + fuzzed
        ),
        // A fleet of sessions in virtual time (docs/design/simulation.md): its world for the tests, and the long run as a
        // program of its own, since tests are built for debugging.
        .target(
            name: "FleetSimulation",
            dependencies: [
                "CLinux", "LanyardFoundations", "LanyardRequestPath", "LanyardSessionInterface", "LanyardSessions",
                "LanyardSettings", "LanyardVault",
            ],
            path: "Tests/Simulation/Fleet", swiftSettings: strict
        ),
        .executableTarget(
            name: "SimulationTool", dependencies: ["FleetSimulation", "LanyardFoundations"],
            path: "Tests/Simulation/Tool",
            swiftSettings: strict
        ),
        // The tests of each module, which see that module and what is below it.
        .tests("LanyardFoundationsTests", ["CLinux", "LanyardFoundations", "TestSupport"]),
        .tests("LanyardSettingsTests", ["LanyardSettings"]),
        .tests(
            "LanyardRequestPathTests",
            [
                "CLinux", "CNGHTTP2", "LanyardBroker", "LanyardFoundations", "LanyardRequestPath", "LanyardSettings",
                "TestSupport",
                "TornSockets", logging,
            ]),
        .tests(
            "LanyardBrokerTests",
            [
                "LanyardBroker", "LanyardFoundations", "LanyardRequestPath", "LanyardSettings", "TestSupport", logging,
            ]),
        .tests("LanyardSessionInterfaceTests", ["LanyardFoundations", "LanyardSessionInterface"]),
        // The request path: one simulation puts the shard's token cache before a session.
        .tests(
            "LanyardSessionsTests",
            [
                "FleetSimulation", "LanyardFoundations", "LanyardRequestPath", "LanyardSessionInterface",
                "LanyardSessions", "LanyardSettings", "TestSupport", logging,
            ]),
        .tests(
            "LanyardIdentityTests",
            [
                "CLinux", "COpenSSL", "IdentityTestSupport", "LanyardEmulator", "LanyardFoundations", "LanyardIdentity",
                "LanyardSessionInterface", "LanyardSettings", "TestSupport",
            ]),
        .tests(
            "LanyardVaultTests",
            [
                "COpenSSL", "LanyardFoundations", "LanyardSessionInterface", "LanyardSettings", "LanyardVault",
                "TestSupport", logging,
            ], exclude: ["EarlierVersion"]),
        .tests(
            "LanyardTelemetryTests",
            ["LanyardFoundations", "LanyardSettings", "LanyardTelemetry", "TestSupport", logging]),
        .tests(
            "LanyardConfigurationTests",
            ["LanyardConfiguration", "LanyardSettings", "TestSupport"]),
        .tests(
            "LanyardAdminTests",
            [
                "CLinux", "LanyardAdmin", "LanyardFoundations", "LanyardRequestPath", "LanyardSessionInterface",
                "LanyardSessions", "LanyardSettings", "LanyardTelemetry", "TestSupport", logging,
            ]),
        .tests("LanyardClientTests", ["LanyardClient", "LanyardFoundations", "LanyardSettings", "TestSupport"]),
        .tests(
            "LanyardTests",
            [
                "COpenSSL", "Lanyard", "LanyardAdmin", "LanyardBroker", "LanyardConfiguration", "LanyardFoundations",
                "LanyardIdentity", "LanyardRequestPath", "LanyardSessions", "LanyardSettings", "LanyardTelemetry",
                "TestSupport", logging,
            ]),
        .tests("LanyardEmulatorTests", ["COpenSSL", "LanyardEmulator", "LanyardFoundations", "TestSupport"]),
        // The session service with the App Services client, the emulator and a store.
        .tests(
            "SessionPathTests",
            [
                "IdentityTestSupport", "LanyardAdmin", "LanyardEmulator", "LanyardFoundations", "LanyardIdentity",
                "LanyardRequestPath", "LanyardSessionInterface", "LanyardSessions", "LanyardSettings", "LanyardVault",
                "TestSupport",
            ]),
        // The source, its comments and the pages, as texts.
        .tests(
            "SourceTextTests",
            [
                "LanyardAdmin", "LanyardClient", "LanyardFoundations", "LanyardRequestPath", "LanyardSessionInterface",
                "LanyardSessions", "LanyardVault", "TestSupport",
            ]),
        // The tests of what tests.
        .tests("TestSupportTests", ["LanyardFoundations", "TestSupport"]),
        .tests("FuzzHeadsTests", ["FuzzHeads", "LanyardRequestPath", "LanyardSettings", "TestSupport"]),
        .tests("FleetSimulationTests", ["FleetSimulation", "LanyardFoundations", "LanyardVault", "TestSupport"]),
        // The built programs, by what is asked of them. What these targets share is internal to SystemTestSupport, which they import as
        // testable.
        .target(
            name: "SystemTestSupport",
            dependencies: ["CLinux", "CNGHTTP2", "COpenSSL", "LanyardFoundations", "TestSupport"],
            path: "Tests/SystemTestSupport", swiftSettings: strict),
        .tests("SystemHTTPTests", system),
        .tests("SystemSessionTests", system, exclude: ["AppServices/Peer", "OAuth/Peer"]),
        .tests("SystemTLSTests", system),
        .tests("SystemProcessTests", system),
    ],
    cLanguageStandard: .gnu11
)

if isFuzzing {
    package.products.append(.executable(name: "lanyard-fuzz", targets: ["LanyardFuzz"]))
    package.targets.append(
        .executableTarget(
            name: "LanyardFuzz", dependencies: ["FuzzHeads"], path: "Tests/Fuzz/Driver",
            swiftSettings: strict,
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer", "-use-ld=lld"])]
        ))
}
