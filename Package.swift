// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: Swift 6 mode, no import leaking between files, no warning left standing.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "lanyard",
    products: [
        .executable(name: "lanyard", targets: ["LanyardTool"]),
        .executable(name: "lanyard-emulator", targets: ["LanyardEmulatorTool"]),
        .library(name: "LanyardEmulator", targets: ["LanyardEmulator"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swhitty/FlyingFox", from: "0.27.1"),
    ],
    targets: [
        // The only C we compile: typed doors to what Swift cannot call or see.
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
            swiftSettings: strict + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]
        ),
        .executableTarget(
            name: "LanyardTool",
            dependencies: ["CLanyard", "Lanyard", .product(name: "ArgumentParser", package: "swift-argument-parser")],
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
            dependencies: ["LanyardEmulator", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            swiftSettings: strict
        ),
        // Raw sockets, FaultGate and process handling that both test targets use.
        .target(
            name: "TestSupport", dependencies: ["CLanyard", "Lanyard"], path: "Tests/TestSupport", swiftSettings: strict
        ),
        .testTarget(
            name: "LanyardTests",
            dependencies: [
                "Lanyard", "TestSupport", "LanyardEmulator", "CLanyard",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict
        ),
        .testTarget(
            name: "SystemTests",
            dependencies: ["Lanyard", "TestSupport", "LanyardTool", "LanyardEmulatorTool"],
            swiftSettings: strict
        ),
    ],
    cLanguageStandard: .gnu11
)
