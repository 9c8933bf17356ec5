"""`cobweb install`: the roles and collections of requirements.yml, pinned by digest.

`_requirements` reads what is asked for, `_lock` what was locked, `_survey` compares both with the
folders of the site. `_fetch` has ansible-galaxy (`_galaxy`) install what is missing into a private
folder of the site (`_staging`), and `_run` checks it against the lock and moves it into place.
"""
