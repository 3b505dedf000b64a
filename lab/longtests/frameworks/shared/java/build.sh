#!/bin/sh
# Fetches the packages of pom.xml through Maven into jars/, and compiles the program into classes/.
set -e
copy=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
mvn --batch-mode --quiet --no-transfer-progress "$copy" -DincludeScope=runtime -DoutputDirectory="$PWD/jars"
mkdir -p classes
find . -name '*.java' > sources.txt
javac -nowarn -proc:none -parameters --release 17 -cp 'jars/*' -d classes @sources.txt
